//! The trained model continues prompts, on one replica that keeps its cache from prompt to prompt.

use crate::Failure;
use crate::args::WriteArgs;
use std::io::Write;

#[cfg(not(feature = "tinygpt"))]
pub(crate) fn write(_: &WriteArgs, _: &mut impl Write) -> Result<(), Failure> {
    Err(Failure::Request("write: this build has no model in it; build with --features tinygpt".into()))
}

#[cfg(feature = "tinygpt")]
pub(crate) use real::write;

#[cfg(feature = "tinygpt")]
mod real {
    use super::{Failure, Write, WriteArgs};
    use servelab_lab::writing::{Codec, WriteError, Writer};
    use servelab_spec::writing::{WriteRequest, Written};
    use servelab_tinygpt::shipped::{MANIFEST, Manifest, Model};
    use servelab_tinygpt::{CpuKernels, KvShape, TinyGptExecutor, Tokenizer};
    use std::path::Path;
    use std::time::Instant;

    struct Text(Box<dyn Tokenizer>);

    impl Codec for Text {
        fn encode(&self, text: &str) -> Vec<u32> {
            self.0.encode(text)
        }

        fn decode(&self, tokens: &[u32]) -> String {
            self.0.decode(tokens)
        }
    }

    pub(crate) fn write(args: &WriteArgs, out: &mut impl Write) -> Result<(), Failure> {
        let model = match (&args.weights, &args.tokenizer) {
            (Some(weights), Some(tokenizer)) => own(weights, tokenizer).map_err(Failure::Run)?,
            _ => shipped(&args.model).unwrap_or_else(|reason| {
                let message = "random reference weights write in its place, and write nonsense";
                // A notice: when standard error is gone the text still comes.
                let _ = writeln!(std::io::stderr(), "servelab: {reason}; {message}");
                Model::stand_in()
            }),
        };
        let shape = KvShape::default();
        let context = model.weights.config.context as u32;
        let began = Instant::now();
        let clock = move || began.elapsed().as_secs_f64();
        let mut executor = TinyGptExecutor::new(CpuKernels::new(&model.weights), shape, Some(Box::new(clock)));
        let codec = Text(model.tokenizer);
        let mut writer = Writer::new(shape.blocks, context).map_err(failure)?;
        let groups: Vec<&[String]> = if args.batch { vec![&args.prompts] } else { args.prompts.chunks(1).collect() };
        for prompts in groups {
            let request = WriteRequest {
                prompts: prompts.to_vec(),
                max_tokens: args.max_tokens,
                temperature: args.temperature,
                top_k: args.top_k,
                top_p: args.top_p,
                seed: args.seed,
            };
            writer.ask(&request, &codec).map_err(failure)?;
            while pollster::block_on(writer.step(&mut executor)).map_err(failure)?.is_some() {}
            print(&writer.written(None, &codec), out)?;
        }
        Ok(())
    }

    fn print(written: &Written, out: &mut impl Write) -> Result<(), Failure> {
        for line in &written.lines {
            let cached = line.cached.unwrap_or(0);
            let ms = |seconds: Option<f64>| seconds.map_or("?".into(), |seconds| format!("{:.1} ms", seconds * 1e3));
            writeln!(out, "{}", line.text)?;
            write!(
                out,
                "— {} prompt tokens, {cached} of them from the cache; first token after {}",
                line.prompt.len(),
                ms(line.first_token_s)
            )?;
            if cached > 0 {
                write!(out, ", about {} saved", ms(line.saved_s))?;
            }
            writeln!(out)?;
        }
        let totals = &written.totals;
        let speed = totals.tokens_per_s.map_or("?".into(), |speed| format!("{speed:.0}"));
        let time = totals.prefill_time_share.map_or("?".into(), |share| format!("{:.0}", 100.0 * share));
        writeln!(
            out,
            "— {} tokens written in {} steps, {speed} tokens/s; prefill took {time} % of the time and was {:.0} % of the tokens\n",
            totals.output_tokens,
            totals.steps,
            100.0 * totals.prefill_share
        )?;
        Ok(())
    }

    fn shipped(folder: &Path) -> Result<Model, String> {
        let manifest = Manifest::from_json(&read(&folder.join(MANIFEST))?).map_err(|error| error.to_string())?;
        let weights = read(&folder.join(&manifest.weights.file))?;
        let tokenizer = read(&folder.join(&manifest.tokenizer.file))?;
        Model::checked(&manifest, &weights, &tokenizer).map_err(|error| error.to_string())
    }

    fn own(weights: &Path, tokenizer: &Path) -> Result<Model, String> {
        Model::from_files(&read(weights)?, &read(tokenizer)?).map_err(|error| error.to_string())
    }

    fn read(path: &Path) -> Result<Vec<u8>, String> {
        std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn failure(error: WriteError) -> Failure {
        match error {
            WriteError::Request(_) | WriteError::Refused { .. } => Failure::Request(error.to_string()),
            WriteError::Execute(_) | WriteError::Engine(_) => Failure::Run(error.to_string()),
        }
    }
}
