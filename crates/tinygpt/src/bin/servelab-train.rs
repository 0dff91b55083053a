//! Learns a tokenizer and weights from a text, and measures what they are worth. `servelab-train help` lists the commands.
#![allow(clippy::print_stdout)]

use clap::{Args, Parser, Subcommand};
use servelab_tinygpt::shipped::{FileInfo, MANIFEST, Manifest, Model};
use servelab_tinygpt::train::adamw::AdamW;
use servelab_tinygpt::train::corpus::{Corpus, split};
use servelab_tinygpt::train::schedule::Schedule;
use servelab_tinygpt::train::trainer::{Settings, State};
use servelab_tinygpt::train::{checkpoint, measure};
use servelab_tinygpt::weights_file::Precision;
use servelab_tinygpt::{BpeTokenizer, CpuKernels, KvShape, TinyGptConfig, TinyGptExecutor, Tokenizer};
use std::error::Error;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Parser)]
#[command(name = "servelab-train", about = "Learns a tokenizer and weights from a text, and measures them")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Learns a byte-level BPE tokenizer from the first nine tenths of a text
    Tokenizer {
        /// The text
        corpus: PathBuf,
        /// Where tokenizer.json goes
        out: PathBuf,
        /// Tokens
        #[arg(long, default_value_t = 1024)]
        vocabulary: usize,
    },
    /// Learns weights from the first nine tenths of a text; goes on where a checkpoint in the folder left off
    Learn(Learn),
    /// Writes a checkpoint's weights in half precision, the tokenizer and a manifest into a folder
    Export {
        /// The text, whose last tenth says what the weights are worth
        corpus: PathBuf,
        /// A checkpoint
        checkpoint: PathBuf,
        /// tokenizer.json
        tokenizer: PathBuf,
        /// The folder
        out: PathBuf,
        /// Tokens of a window
        #[arg(long, default_value_t = 256)]
        length: usize,
    },
    /// Held-out loss of weights in bits per byte, on the last tenth of a text
    Measure {
        /// The text
        corpus: PathBuf,
        /// The weights or a checkpoint
        weights: PathBuf,
        /// tokenizer.json
        tokenizer: PathBuf,
        /// Tokens of a window
        #[arg(long, default_value_t = 256)]
        length: usize,
    },
}

#[derive(Args)]
struct Learn {
    /// The text
    corpus: PathBuf,
    /// tokenizer.json
    tokenizer: PathBuf,
    /// A folder for checkpoint.safetensors and best.safetensors
    out: PathBuf,
    /// Steps in all
    #[arg(long, default_value_t = 4000)]
    steps: u64,
    /// Sequences a step
    #[arg(long, default_value_t = 8)]
    batch: usize,
    /// Tokens of a sequence
    #[arg(long, default_value_t = 256)]
    length: usize,
    /// Sequences a thread computes at once
    #[arg(long, default_value_t = 1)]
    micro: usize,
    /// Threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Highest learning rate
    #[arg(long, default_value_t = 2e-3)]
    peak: f64,
    /// Last learning rate ÷ highest
    #[arg(long, default_value_t = 0.02)]
    floor: f64,
    /// Steps of warm-up
    #[arg(long, default_value_t = 100)]
    warm_up: u64,
    /// Of 256 activations, how many are dropped
    #[arg(long, default_value_t = 26)]
    dropout: u8,
    /// Weight decay
    #[arg(long, default_value_t = 0.1)]
    decay: f64,
    /// Steps from one held-out loss and checkpoint to the next
    #[arg(long, default_value_t = 200)]
    every: u64,
    /// Names initial weights, windows and dropout
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Transformer blocks
    #[arg(long, default_value_t = 4)]
    layers: usize,
    /// Width
    #[arg(long, default_value_t = 256)]
    width: usize,
    /// Query heads
    #[arg(long, default_value_t = 8)]
    heads: usize,
    /// Key and value heads
    #[arg(long, default_value_t = 2)]
    kv_heads: usize,
    /// Width inside SwiGLU
    #[arg(long, default_value_t = 768)]
    hidden: usize,
}

fn main() -> std::process::ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("servelab-train: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), Box<dyn Error>> {
    match command {
        Command::Tokenizer { corpus, out, vocabulary } => {
            let text = text(&corpus)?;
            let (learnt, held_out) = split(&text);
            let tokenizer = BpeTokenizer::learn(learnt, vocabulary)?;
            write(&out, tokenizer.to_json()?.as_bytes())?;
            let count = tokenizer.encode(held_out).len();
            let bytes_a_token = held_out.len() as f64 / count.max(1) as f64;
            println!("{} tokens, {bytes_a_token:.3} bytes a token on the held-out tenth", tokenizer.vocabulary());
            Ok(())
        }
        Command::Learn(learn) => learn_weights(&learn),
        Command::Export { corpus, checkpoint, tokenizer, out, length } => {
            let (state, settings) = checkpoint::load(&read(&checkpoint)?)?;
            let weights = state.weights.to_safetensors(Precision::F16)?;
            let tokenizer = read(&tokenizer)?;
            // Measured as it is shipped: rounded.
            let model = Model::from_files(&weights, &tokenizer)?;
            let held_out_bits_per_byte = held_out(&model, &corpus, length)?;
            let manifest = Manifest {
                weights: FileInfo::of("tinygpt.safetensors", &weights),
                tokenizer: FileInfo::of("tokenizer.json", &tokenizer),
                held_out_bits_per_byte: (held_out_bits_per_byte * 1e4).round() / 1e4,
                tokens_seen: state.step * (settings.batch * settings.length) as u64,
            };
            std::fs::create_dir_all(&out)?;
            write(&out.join(&manifest.weights.file), &weights)?;
            write(&out.join(&manifest.tokenizer.file), &tokenizer)?;
            write(&out.join(MANIFEST), format!("{}\n", serde_json::to_string_pretty(&manifest)?).as_bytes())?;
            println!("{} parameters, {} bytes, step {}", model.weights.config.parameters(), weights.len(), state.step);
            Ok(())
        }
        Command::Measure { corpus, weights, tokenizer, length } => {
            let (bytes, tokenizer) = (read(&weights)?, read(&tokenizer)?);
            let bytes = match checkpoint::load(&bytes) {
                Ok((state, _)) => state.weights.to_safetensors(Precision::F32)?,
                Err(_) => bytes,
            };
            held_out(&Model::from_files(&bytes, &tokenizer)?, &corpus, length)?;
            Ok(())
        }
    }
}

/// Held-out loss, bits per byte; says so.
fn held_out(model: &Model, corpus: &Path, length: usize) -> Result<f64, Box<dyn Error>> {
    let corpus = Corpus::new(&text(corpus)?, model.tokenizer.as_ref(), length)?;
    let block_tokens = 16;
    let shape = KvShape { blocks: measure::blocks(length, block_tokens), block_tokens };
    let mut executor = TinyGptExecutor::new(CpuKernels::new(&model.weights), shape, None);
    let total = corpus.held_out.len();
    let tell = |done: usize| bar("held out", done as f64 / total as f64);
    let loss = pollster::block_on(measure::held_out(&mut executor, &corpus.held_out, length, tell))?;
    let per_byte = loss.bits / corpus.held_out_bytes as f64;
    println!(
        "{per_byte:.4} bits per byte on {} held-out bytes ({} tokens, {:.4} bits each)",
        corpus.held_out_bytes,
        loss.tokens,
        loss.bits / loss.tokens as f64
    );
    Ok(per_byte)
}

fn learn_weights(learn: &Learn) -> Result<(), Box<dyn Error>> {
    let tokenizer = BpeTokenizer::from_json(&read(&learn.tokenizer)?)?;
    let corpus = Corpus::new(&text(&learn.corpus)?, &tokenizer, learn.length)?;
    std::fs::create_dir_all(&learn.out)?;
    let (latest, best) = (learn.out.join("checkpoint.safetensors"), learn.out.join("best.safetensors"));
    let config = TinyGptConfig {
        vocabulary: tokenizer.vocabulary(),
        layers: learn.layers,
        width: learn.width,
        heads: learn.heads,
        kv_heads: learn.kv_heads,
        hidden: learn.hidden,
        ..TinyGptConfig::default()
    };
    let settings = Settings {
        seed: learn.seed,
        batch: learn.batch,
        length: learn.length,
        micro: learn.micro,
        dropout: learn.dropout,
        schedule: Schedule { peak: learn.peak, floor: learn.floor, warm_up: learn.warm_up, steps: learn.steps },
        optimiser: AdamW { decay: learn.decay, ..AdamW::default() },
    };
    settings.validate(config.context)?;
    let mut state = if latest.exists() {
        let (state, _) = checkpoint::load(&read(&latest)?)?;
        println!("goes on after step {} of {}", state.step, latest.display());
        state
    } else {
        State::new(&config, learn.seed)?
    };
    let bits_a_byte = corpus.held_out.len() as f64 / corpus.held_out_bytes as f64 / std::f64::consts::LN_2;
    println!(
        "{} parameters, {} + {} tokens, {} tokens a step, {:.1} passes",
        state.weights.config.parameters(),
        corpus.learnt.len(),
        corpus.held_out.len(),
        settings.batch * settings.length,
        (learn.steps as usize * settings.batch * settings.length) as f64 / corpus.learnt.len() as f64,
    );
    let mut lowest = f64::INFINITY;
    let mut smooth: Option<f64> = None;
    let (mut began, mut since) = (Instant::now(), state.step);
    while state.step < learn.steps {
        let outcome = state.advance(&corpus, &settings, learn.threads)?;
        let loss = smooth.map_or(outcome.loss, |smooth| 0.98 * smooth + 0.02 * outcome.loss);
        smooth = Some(loss);
        let speed =
            (state.step - since) as f64 * (settings.batch * settings.length) as f64 / began.elapsed().as_secs_f64();
        let left = (learn.steps - state.step) as f64 * (settings.batch * settings.length) as f64 / speed / 60.0;
        let line = format!(
            "step {} loss {loss:.3} norm {:.2} rate {:.1e}, {speed:.0} tokens/s, {left:.0} min left",
            state.step, outcome.norm, outcome.rate
        );
        bar(&line, state.step as f64 / learn.steps as f64);
        let last = state.step == learn.steps;
        if state.step.is_multiple_of(learn.every) || last {
            let held_out = state.glance(&corpus.held_out, &settings, learn.threads) * bits_a_byte;
            if std::io::stderr().is_terminal() {
                eprintln!();
            }
            println!("{line}; held out {held_out:.4} bits per byte");
            let bytes = checkpoint::save(&state, &settings)?;
            write(&latest, &bytes)?;
            if held_out < lowest {
                lowest = held_out;
                write(&best, &bytes)?;
            }
            (began, since) = (Instant::now(), state.step);
        }
    }
    Ok(())
}

/// A progress bar on a terminal; nothing elsewhere, where lines follow one another.
fn bar(what: &str, share: f64) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let full = (share.clamp(0.0, 1.0) * 30.0) as usize;
    eprint!("\r[{}{}] {what}\u{1b}[K", "#".repeat(full), ".".repeat(30 - full));
    _ = std::io::stderr().flush();
}

fn text(path: &Path) -> Result<String, Box<dyn Error>> {
    String::from_utf8(read(path)?)
        .map_err(|error| format!("{}: {error}; accepted is UTF-8 text", path.display()).into())
}

fn read(path: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Writes a file beside its place and moves it there, so that a crash leaves the old one.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    let part = path.with_extension("part");
    std::fs::write(&part, bytes)
        .and_then(|()| std::fs::rename(&part, path))
        .map_err(|error| format!("{}: {error}", path.display()).into())
}
