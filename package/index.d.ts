import type { Axis, ClientSpec, ControllerSpec, PointPolicy, PolicySpec, Preset, Report, Spec, SweepReport } from "./types.js";

export type * from "./types.js";

/** The version of the package; reports name it as their generator. */
export const version: string;

type Part<T> = T extends readonly unknown[] ? T : T extends object ? { [K in keyof T]?: Part<T[K]> } : T;

/** A list's items as objects, or as they are written in an address: `"prefix_affinity(guard=0)"`. */
type Listed<T> = string | (string | T)[];

type Settings = Omit<Spec, "version" | "preset" | "policies" | "scaling" | "clients">;

/** Settings by dotted keys, as `servelab list settings` and the page's address have them: `{"workload.rate": 0.9}`. */
type Dotted = { [key: `${string}.${string}`]: string | number | boolean };

/** What differs from a preset, by groups or by dotted keys. Lists are replaced as a whole. */
export type Changes = Part<Settings> & {
  /** The preset to start from; without one the first of {@link presets}. */
  preset?: string;
  policies?: Listed<PolicySpec>;
  scaling?: Part<Omit<NonNullable<Spec["scaling"]>, "controllers">> & { controllers?: Listed<ControllerSpec> };
  clients?: Part<Omit<NonNullable<Spec["clients"]>, "policies">> & { policies?: Listed<ClientSpec> };
} & Dotted;

/**
 * What can be asked for: what differs from a preset; a whole spec, which is one with a `version` and has defaults for what it leaves out; a report,
 * whose spec is taken; the text of an address; or the name of a preset.
 */
export type Asked = Changes | (Spec & { version: number }) | Report | string;

/** How far a run or a sweep has come. */
export interface Progress {
  stage: "loading" | "building" | "running" | "reporting";
  /** Share of all requests that have ended, 0 to 1. */
  fraction: number;
  /** Index of the policy being run. */
  policy: number;
  /** Virtual time under this policy, seconds. */
  t_s: number;
}

/** As much of an `AbortSignal` as is used. */
export interface Signal {
  readonly reason: any;
  throwIfAborted(): void;
  addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

export interface Options {
  /** Called at each stage, and some twenty times a second in between. What it throws ends the run. */
  onProgress?: (progress: Progress) => void;
  /** Ends the run within a slice of work, some ten milliseconds; building a workload and writing a report are not interrupted. */
  signal?: Signal;
}

/** An experiment at every value of one or two settings, with one or several seeds. */
export interface SweepAsked {
  spec: Asked;
  /** Each as an object, or as text: `"workload.rate=0.5..2*7"` (equal differences), `"replicas=1..64^7"` (equal ratios), `"replicas=1,2,4"`. */
  axes: (Axis | string)[];
  /** Runs of every point, with seeds one after the other from the spec's; 1 unless it is said. */
  seeds?: number;
}

/**
 * Runs every policy of a spec on the same arrivals.
 *
 * @throws {SpecError} a value that can not be used
 * @throws the signal's reason, an `AbortError` unless another was given
 */
export function run(asked: Asked, options?: Options): Promise<Report>;

/** The same report as text, byte for byte what `servelab run --format json` writes. */
export function runText(asked: Asked, options?: Options): Promise<string>;

/** Runs a sweep, on the thread that it is called on; throws as {@link run} does. */
export function sweep(asked: SweepAsked, options?: Options): Promise<SweepReport>;

/** The same report as text, byte for byte what `servelab sweep --format json` writes. */
export function sweepText(asked: SweepAsked, options?: Options): Promise<string>;

/** What to draw of a sweep: over one axis a line for each policy with the band of its mean, over two a map. */
export interface SweepChartAsked {
  figure: keyof PointPolicy["mean"];
  /** Index of the policy of a map. */
  policy?: number;
  /** Index of the policy that is taken from it, for a map of the difference. */
  against?: number;
  /** Pixels; 720 × 400 unless they are said. */
  width?: number;
  height?: number;
  dark?: boolean;
}

/** Draws a number of a sweep as the page and `servelab sweep --chart` do; SVG as text. */
export function sweepChart(report: SweepReport, asked: SweepChartAsked): Promise<string>;

/** The whole spec that something asked for stands for, checked. */
export function spec(asked: Asked): Promise<Spec>;

/** All ready-made experiments. */
export function presets(): Promise<Preset[]>;

/** A value that can not be used. */
export class SpecError extends Error {
  name: "SpecError";
  /** Dotted key of the field: `workload.rate`. */
  path: string;
  /** What stood there; absent where a policy's script failed. */
  found?: string;
  /** What would be accepted. */
  accepted?: string;
  constructor(message: string, fault?: { path?: string; found?: string; accepted?: string });
}
