// Lays out the package beside its wasm: scripts, manifest, and `types.d.ts`, made out of the JSON Schemas that the Rust types give.
// node build.mjs FOLDER-OF-SCHEMAS FOLDER; `cargo xtask package` calls it.
//
// The schemas use few keywords, and one that is not known here is an error: nothing is left out in silence. Every type is written once, under its
// Rust name, with its documentation.
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";

/** The types that schemas are there for, by the schema's file. */
const ROOTS = { spec: "Spec", report: "Report", sweep: "SweepReport", preset: "Preset" };

/** What says nothing about a type in TypeScript: limits are checked when a spec is read. */
const SILENT = ["description", "default", "format", "minimum", "maximum", "title", "$schema", "$defs"];

const comment = (text, indent) => {
  if (!text) return "";
  const lines = text.replaceAll("*/", "*\\/").trim().split("\n").map((line) => line.trimEnd());
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} *${line && ` ${line}`}\n`).join("")}${indent} */\n`;
};

const property = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name));

/** Like `a | b`; in brackets where something binds closer. */
const union = (parts) => [...new Set(parts)].join(" | ");

function type(schema, indent = "") {
  if (schema === true) return "unknown";
  const known = ["$ref", "const", "enum", "anyOf", "oneOf", "type", "properties", "required", "additionalProperties", "items", "prefixItems", "minItems", "maxItems"];
  const strange = Object.keys(schema).find((keyword) => !known.includes(keyword) && !SILENT.includes(keyword));
  if (strange) throw new Error(`the keyword ${strange} is not known: ${JSON.stringify(schema).slice(0, 200)}`);
  if (schema.$ref) return schema.$ref.replace("#/$defs/", "");
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return union(schema.enum.map((value) => JSON.stringify(value)));
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return union(choices.map((choice) => type(choice, indent)));
  if (Array.isArray(schema.type)) return union(schema.type.map((one) => type({ ...schema, type: one }, indent)));
  switch (schema.type) {
    case "integer":
    case "number":
      return "number";
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    case "array": {
      if (schema.prefixItems) return `[${schema.prefixItems.map((item) => type(item, indent)).join(", ")}]`;
      const item = type(schema.items ?? true, indent);
      return item.includes("|") ? `(${item})[]` : `${item}[]`;
    }
    case "object":
      return fields(schema, indent);
    case undefined:
      return "unknown";
    default:
      throw new Error(`the type ${schema.type} is not known`);
  }
}

function fields(schema, indent) {
  const inner = `${indent}  `;
  const lines = Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const optional = schema.required?.includes(name) ? "" : "?";
    return `${comment(field.description, inner)}${inner}${property(name)}${optional}: ${type(field, inner)};\n`;
  });
  const rest = schema.additionalProperties;
  // Without fields of its own it is a table; a type with fields takes no others.
  if (lines.length === 0) return rest === undefined || rest === true ? "Record<string, unknown>" : rest ? `Record<string, ${type(rest, indent)}>` : "Record<string, never>";
  return `{\n${lines.join("")}${indent}}`;
}

const [folder, target] = process.argv.slice(2);
if (!target) throw new Error("give the folder of the schemas and the folder to write into");

const types = new Map();
for (const [file, name] of Object.entries(ROOTS)) {
  const { $defs, ...root } = JSON.parse(readFileSync(join(folder, `${file}.json`), "utf8"));
  for (const [type, schema] of [...Object.entries($defs ?? {}), [name, root]]) {
    const { title, $schema, ...plain } = schema;
    if (types.has(type) && !isDeepStrictEqual(types.get(type), plain)) throw new Error(`two schemas disagree about ${type}`);
    types.set(type, plain);
  }
}
const written = [...types.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, schema]) => {
  const text = type(schema);
  const body = text.startsWith("{") && text.endsWith("}") && !schema.anyOf && !schema.oneOf ? `export interface ${name} ${text}` : `export type ${name} = ${text};`;
  return `${comment(schema.description, "")}${body}\n`;
});
writeFileSync(join(target, "types.d.ts"), `// Made from the Rust types; change nothing here.\n\n${written.join("\n")}`);
const here = dirname(fileURLToPath(import.meta.url));
for (const file of ["package.json", "README.md", "core.js", "index.js", "node.js", "index.d.ts"]) copyFileSync(join(here, file), join(target, file));
