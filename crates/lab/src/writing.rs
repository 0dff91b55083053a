//! One replica that writes text: the engine and an executor, step by step, with everything a reader may want to see in between.
//!
//! The engine stays from one request to the next, so a second prompt finds the first one's blocks. There is no virtual time here: what
//! is shown are the steps' measured seconds. From tokens to text and back is the caller's business ([`Codec`]): the lab knows no model.

use servelab_engine::{
    Engine, EngineConfig, EngineEvent, ExecuteError, Executor, Nanos, Prompt, Refusal, Sampling, SequenceId,
    SequenceRequest,
};
use servelab_spec::SpecError;
use servelab_spec::writing::{Block, Line, Step, Totals, WriteRequest, Written};
use thiserror::Error;

/// Text to token ids and back.
pub trait Codec {
    /// Token ids of a text.
    fn encode(&self, text: &str) -> Vec<u32>;
    /// Text of token ids.
    fn decode(&self, tokens: &[u32]) -> String;
}

/// Why nothing is written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// A field of the request.
    #[error(transparent)]
    Request(#[from] SpecError),
    /// The engine does not take a prompt.
    #[error("prompt {number}: {refusal}")]
    Refused {
        /// Which, counted from 1.
        number: usize,
        /// Why.
        refusal: Refusal,
    },
    /// The executor failed.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// Settings of the engine, or a step's output that does not fit.
    #[error("{0}")]
    Engine(String),
}

/// A replica and what it was asked last.
pub struct Writer {
    engine: Engine,
    asked: Vec<Asked>,
    /// Prompts since the replica was empty.
    prompts: u32,
    totals: Totals,
    /// Of steps that did nothing but prefill, since the replica was empty.
    prefill: Measured,
    /// Of steps that did nothing but decode.
    decode: Measured,
    /// Measured seconds of this request's steps that did nothing but prefill.
    prefill_s: f64,
    /// This request's measured steps that did both.
    mixed: Vec<Step>,
    events: Vec<EngineEvent>,
}

/// Measured seconds, and the tokens computed in them.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    seconds: f64,
    tokens: u32,
}

impl Measured {
    fn add(&mut self, seconds: f64, tokens: u32) {
        self.seconds += seconds;
        self.tokens += tokens;
    }

    /// Seconds a token; `None` before the first.
    fn pace(&self) -> Option<f64> {
        (self.tokens > 0 && self.seconds > 0.0).then(|| self.seconds / f64::from(self.tokens))
    }
}

struct Asked {
    id: SequenceId,
    prompt: Vec<u32>,
    output: Vec<u32>,
    cached: Option<u32>,
    computed: u32,
    first_token_s: Option<f64>,
    done: bool,
}

impl Writer {
    /// An empty replica of `blocks` blocks for a model whose context is `context` tokens; the rest as the engine's defaults are.
    ///
    /// # Errors
    /// When the engine does not accept that.
    pub fn new(blocks: u32, context: u32) -> Result<Self, WriteError> {
        let config = EngineConfig { blocks, max_context: context, materialise: true, ..EngineConfig::default() };
        let engine = Engine::new(config).map_err(|error| WriteError::Engine(error.to_string()))?;
        Ok(Writer {
            engine,
            asked: Vec::new(),
            prompts: 0,
            totals: Totals::default(),
            prefill: Measured::default(),
            decode: Measured::default(),
            prefill_s: 0.0,
            mixed: Vec::new(),
            events: Vec::new(),
        })
    }

    /// Takes a request; what was asked before is dropped, its blocks stay in the cache.
    ///
    /// # Errors
    /// When a field is out of range or a prompt does not fit. Nothing is asked then.
    pub fn ask(&mut self, request: &WriteRequest, codec: &dyn Codec) -> Result<(), WriteError> {
        request.validate()?;
        self.stop();
        self.asked.clear();
        self.totals = Totals::default();
        self.prefill_s = 0.0;
        self.mixed.clear();
        for (index, text) in request.prompts.iter().enumerate() {
            let tokens = codec.encode(text);
            let id = SequenceId(u64::from(self.prompts));
            let refused = |refusal| WriteError::Refused { number: index + 1, refusal };
            if tokens.is_empty() {
                self.stop();
                return Err(refused(Refusal::EmptyPrompt));
            }
            let sequence = SequenceRequest {
                id,
                prompt: Prompt::from_tokens(&tokens, self.engine.config().block_tokens, 0),
                max_tokens: request.max_tokens,
                output_tokens: request.max_tokens,
                // Ids of a vocabulary of the model's own: the engine's end-of-text is not among them.
                ignore_eos: true,
                sampling: Sampling {
                    temperature: request.temperature,
                    top_k: request.top_k,
                    top_p: request.top_p,
                    // Equal prompts side by side shall differ.
                    seed: request.seed.wrapping_add(index as u64),
                },
                adapter: None,
                tenant: self.prompts,
                output_seed: 0,
            };
            if let Err(refusal) = self.engine.submit(Nanos::ZERO, sequence) {
                self.stop();
                return Err(refused(refusal));
            }
            self.prompts += 1;
            self.totals.prompt_tokens += tokens.len() as u32;
            self.asked.push(Asked {
                id,
                prompt: tokens,
                output: Vec::new(),
                cached: None,
                computed: 0,
                first_token_s: None,
                done: false,
            });
        }
        Ok(())
    }

    /// Drops what is not finished.
    pub fn stop(&mut self) {
        for asked in self.asked.iter_mut().filter(|asked| !asked.done) {
            self.engine.cancel(Nanos::ZERO, asked.id);
            asked.done = true;
        }
    }

    /// Everything asked for is written.
    pub fn is_done(&self) -> bool {
        self.asked.iter().all(|asked| asked.done)
    }

    /// Computes one step. `None` when there is nothing left.
    ///
    /// # Errors
    /// What the executor says; the step then counts as not run.
    pub async fn step<E: Executor>(&mut self, executor: &mut E) -> Result<Option<Step>, WriteError> {
        let Some(plan) = self.engine.plan(Nanos::ZERO, 1) else { return Ok(None) };
        let mut step = Step::default();
        for item in &plan.items {
            if item.decode {
                step.decodes += 1;
            } else {
                step.prefill_tokens += item.len;
            }
        }
        let output = match executor.execute(0, plan).await {
            Ok(output) => output,
            Err(error) => {
                self.engine.abort();
                return Err(error.into());
            }
        };
        step.seconds = output.seconds;
        self.events.clear();
        let committed = self.engine.commit(Nanos::ZERO, &output, &mut self.events);
        committed.map_err(|error| WriteError::Engine(error.to_string()))?;
        self.account(&step);
        Ok(Some(step))
    }

    /// Puts a step's measured time with what it was spent on.
    fn measure(&mut self, step: &Step) {
        let Some(seconds) = step.seconds else { return };
        match (step.prefill_tokens, step.decodes) {
            (tokens, 0) => {
                self.prefill.add(seconds, tokens);
                self.prefill_s += seconds;
            }
            (0, sequences) => self.decode.add(seconds, sequences),
            _ => self.mixed.push(*step),
        }
    }

    /// Share of this request's measured time that was prefill; absent without a clock. A step that did both is divided as prompt tokens and decoded ones
    /// would have taken apart, at the paces of the replica's steps of one kind; by their numbers while one of these has not been seen.
    fn prefill_time_share(&self) -> Option<f64> {
        let (prefill, decode) = self.prefill.pace().zip(self.decode.pace()).unwrap_or((1.0, 1.0));
        let of_mixed = self.mixed.iter().map(|step| {
            let (one, other) = (f64::from(step.prefill_tokens) * prefill, f64::from(step.decodes) * decode);
            step.seconds.unwrap_or(0.0) * one / (one + other)
        });
        let seconds = self.totals.seconds;
        (seconds > 0.0).then(|| (self.prefill_s + of_mixed.sum::<f64>()) / seconds)
    }

    fn account(&mut self, step: &Step) {
        self.measure(step);
        let totals = &mut self.totals;
        totals.steps += 1;
        totals.seconds += step.seconds.unwrap_or(0.0);
        totals.prefill_tokens += step.prefill_tokens;
        for event in &self.events {
            let of = |id: SequenceId| self.asked.iter().position(|asked| asked.id == id);
            match *event {
                EngineEvent::Admitted { id, cached_tokens, first: true, .. } => {
                    if let Some(at) = of(id) {
                        self.asked[at].cached = Some(cached_tokens);
                        totals.cached_tokens += cached_tokens;
                    }
                }
                EngineEvent::FirstToken { id } => {
                    if let Some(at) = of(id) {
                        self.asked[at].first_token_s = step.seconds.map(|_| totals.seconds);
                    }
                }
                EngineEvent::Tokens { count, .. } => totals.output_tokens += count,
                EngineEvent::Finished { id, .. } => {
                    if let Some(at) = of(id) {
                        self.asked[at].done = true;
                    }
                }
                _ => {}
            }
        }
        let all = totals.prefill_tokens + totals.output_tokens;
        totals.prefill_share = if all == 0 { 0.0 } else { f64::from(totals.prefill_tokens) / f64::from(all) };
        totals.tokens_per_s = (totals.seconds > 0.0).then(|| f64::from(totals.output_tokens) / totals.seconds);
        self.totals.prefill_time_share = self.prefill_time_share();
        for asked in &mut self.asked {
            if let Some(output) = self.engine.output(asked.id) {
                asked.output.clear();
                asked.output.extend_from_slice(output);
            }
        }
        for view in self.engine.running() {
            if let Some(asked) = self.asked.iter_mut().find(|asked| asked.id == view.id) {
                asked.computed = view.computed_tokens;
            }
        }
    }

    /// The replica as it stands.
    pub fn written(&self, step: Option<Step>, codec: &dyn Codec) -> Written {
        let pieces = |tokens: &[u32]| tokens.iter().map(|&token| codec.decode(&[token])).collect();
        let pace = self.prefill.pace();
        let lines = self.asked.iter().map(|asked| Line {
            prompt: pieces(&asked.prompt),
            cached: asked.cached,
            computed: asked.computed,
            output: pieces(&asked.output),
            text: codec.decode(&[asked.prompt.as_slice(), &asked.output].concat()),
            first_token_s: asked.first_token_s,
            saved_s: asked.cached.zip(pace).map(|(cached, pace)| f64::from(cached) * pace),
            done: asked.done,
        });
        let blocks =
            self.engine.blocks().map(|block| Block { owner: block.tenant, held: block.refs, cached: block.cached });
        Written {
            lines: lines.collect(),
            blocks: blocks.collect(),
            block_tokens: self.engine.config().block_tokens,
            step,
            totals: self.totals,
            done: self.is_done(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use servelab_engine::{StepOutput, StepPlan};

    /// A token a byte.
    struct Bytes;

    impl Codec for Bytes {
        fn encode(&self, text: &str) -> Vec<u32> {
            text.bytes().map(u32::from).collect()
        }

        fn decode(&self, tokens: &[u32]) -> String {
            tokens.iter().filter_map(|&token| char::from_u32(token)).collect()
        }
    }

    /// Writes the letter after the last one; a millisecond a token.
    struct Alphabet;

    impl Executor for Alphabet {
        async fn execute(&mut self, _: u32, plan: &StepPlan) -> Result<StepOutput, ExecuteError> {
            let sampled = plan.items.iter().filter(|item| item.sample);
            let tokens = sampled.map(|item| plan.item_tokens(item).last().map_or(0, |last| last + 1)).collect();
            Ok(StepOutput { tokens, seconds: Some(1e-3 * plan.tokens.len() as f64) })
        }

        fn device(&self) -> String {
            "alphabet".into()
        }
    }

    /// The same with a clock by which decoding a token takes as long as prefilling four, or with none.
    struct Slow(bool);

    impl Executor for Slow {
        async fn execute(&mut self, replica: u32, plan: &StepPlan) -> Result<StepOutput, ExecuteError> {
            let ms: f64 = plan.items.iter().map(|item| if item.decode { 4.0 } else { f64::from(item.len) }).sum();
            let output = Alphabet.execute(replica, plan).await?;
            Ok(StepOutput { seconds: self.0.then_some(1e-3 * ms), ..output })
        }

        fn device(&self) -> String {
            "slow alphabet".into()
        }
    }

    fn all(writer: &mut Writer) -> Written {
        let mut last = None;
        while let Some(step) = pollster::block_on(writer.step(&mut Alphabet)).unwrap() {
            last = Some(step);
        }
        writer.written(last, &Bytes)
    }

    fn request(prompts: &[&str]) -> WriteRequest {
        let prompts = prompts.iter().map(|&prompt| prompt.into()).collect();
        WriteRequest { prompts, max_tokens: 4, ..WriteRequest::default() }
    }

    #[test]
    fn a_second_prompt_finds_the_first_ones_blocks() {
        let mut writer = Writer::new(32, 256).unwrap();
        // 40 tokens: two full blocks of 16 and eight tokens more.
        let system = "s".repeat(40);
        writer.ask(&request(&[&system]), &Bytes).unwrap();
        let written = all(&mut writer);
        assert_eq!(written.lines[0].text, format!("{system}tuvw"));
        assert_eq!(written.lines[0].output, ["t", "u", "v", "w"]);
        assert_eq!((written.lines[0].cached, written.totals.prefill_tokens), (Some(0), 40));
        assert!(written.done && written.lines[0].done);
        writer.ask(&request(&[&format!("{system}a"), &format!("{system}b")]), &Bytes).unwrap();
        let written = all(&mut writer);
        for line in &written.lines {
            assert_eq!(line.cached, Some(32));
            // At a millisecond a token.
            assert!((line.saved_s.unwrap() - 0.032).abs() < 1e-12);
            // 9 tokens of each prompt were computed in the first step, together.
            assert!((line.first_token_s.unwrap() - 0.018).abs() < 1e-12);
        }
        let totals = written.totals;
        assert_eq!((totals.prompt_tokens, totals.cached_tokens, totals.prefill_tokens), (82, 64, 18));
        assert_eq!((totals.output_tokens, totals.steps), (8, 4));
        assert!((totals.prefill_share - 18.0 / 26.0).abs() < 1e-12);
        // 18 + 2 + 2 + 2 ms.
        assert!((totals.tokens_per_s.unwrap() - 8.0 / 0.024).abs() < 1e-9);
        assert_eq!(written.blocks.iter().filter(|block| block.cached).count(), 2);
    }

    /// By hand, of a budget of 512 tokens a step: 700 prompt tokens and 4 written. 512; then 188 with the first token; then three times one
    /// decoded, 4 ms each: 700 ms of 712 are prefill, and 700 tokens of 704.
    #[test]
    fn the_time_of_prefill_is_not_its_share_of_tokens() {
        let budget = Writer::new(128, 2048).unwrap().engine.config().token_budget;
        let written = |prompts: &[&str], clock: bool| {
            let mut writer = Writer::new(256, 2048).unwrap();
            writer.ask(&request(prompts), &Bytes).unwrap();
            let mut steps = vec![];
            while let Some(step) = pollster::block_on(writer.step(&mut Slow(clock))).unwrap() {
                steps.push(step);
            }
            (writer.written(None, &Bytes).totals, steps)
        };
        let (short, long) = ("s".repeat(16), "l".repeat(budget as usize + 188));
        let (totals, _) = written(&[&long], true);
        let prefill = f64::from(budget) + 188.0;
        assert!((totals.prefill_share - prefill / (prefill + 4.0)).abs() < 1e-12, "{totals:?}");
        assert!((totals.prefill_time_share.unwrap() - prefill / (prefill + 12.0)).abs() < 1e-12, "{totals:?}");
        // Both at once: the short one decodes beside the rest of the long one. Every step's time goes where it was spent.
        let (totals, steps) = written(&[&short, &long], true);
        assert!(steps.iter().any(|step| step.prefill_tokens > 0 && step.decodes > 0), "{steps:?}");
        let (prefill, decodes) = (prefill + 16.0, 6.0);
        assert_eq!((f64::from(totals.prefill_tokens), totals.output_tokens), (prefill, 8));
        let exact = prefill / (prefill + 4.0 * decodes);
        assert!((totals.prefill_time_share.unwrap() - exact).abs() < 1e-12, "{totals:?}, {exact}");
        assert_eq!(written(&[&short], false).0.prefill_time_share, None, "without a clock");
    }

    #[test]
    fn what_is_asked_anew_takes_the_place_of_what_was_not_finished() {
        let mut writer = Writer::new(32, 256).unwrap();
        writer.ask(&request(&["abc", "abd"]), &Bytes).unwrap();
        pollster::block_on(writer.step(&mut Alphabet)).unwrap();
        assert!(!writer.is_done());
        writer.ask(&request(&["xyz"]), &Bytes).unwrap();
        let written = all(&mut writer);
        assert_eq!(written.lines.len(), 1);
        assert!(written.blocks.iter().all(|block| block.held == 0));
    }

    #[test]
    fn what_does_not_fit_is_refused_by_number() {
        let mut writer = Writer::new(32, 64).unwrap();
        let error = writer.ask(&request(&["short", &"long".repeat(20)]), &Bytes).unwrap_err();
        assert!(error.to_string().starts_with("prompt 2: "), "{error}");
        assert!(writer.is_done());
        assert!(matches!(writer.ask(&request(&[]), &Bytes), Err(WriteError::Request(_))));
    }
}
