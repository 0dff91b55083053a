//! The model that comes with the page: its files are what the manifest says, and it knows the language it was taught.
#![cfg(all(feature = "train", not(target_arch = "wasm32")))]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use servelab_tinygpt::shipped::{MANIFEST, Manifest, Model};
use servelab_tinygpt::train::{corpus, measure};
use servelab_tinygpt::{CpuKernels, KvShape, TinyGptExecutor};
use std::path::{Path, PathBuf};

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../www/model"))
}

fn shipped() -> (Manifest, Model) {
    let read = |name: &str| std::fs::read(folder().join(name)).unwrap();
    let manifest = Manifest::from_json(&read(MANIFEST)).unwrap();
    let model = Model::checked(&manifest, &read(&manifest.weights.file), &read(&manifest.tokenizer.file)).unwrap();
    (manifest, model)
}

fn bits_a_byte(model: &Model, text: &str) -> f64 {
    let length = 256;
    let shape = KvShape { blocks: measure::blocks(length, 16), block_tokens: 16 };
    let mut executor = TinyGptExecutor::new(CpuKernels::new(&model.weights), shape, None);
    let tokens = model.tokenizer.encode(text);
    let loss = pollster::block_on(measure::held_out(&mut executor, &tokens, length, |_| {})).unwrap();
    loss.bits / text.len() as f64
}

#[test]
fn the_files_are_those_of_the_manifest_and_small_enough() {
    let (manifest, model) = shipped();
    assert!(manifest.weights.bytes <= 8_000_000, "{} bytes", manifest.weights.bytes);
    assert!(manifest.held_out_bits_per_byte < 2.5);
    let text = "Who goes there?\n\nSpeak, or I call the watch: naïve 東京 🙂";
    assert_eq!(model.tokenizer.decode(&model.tokenizer.encode(text)), text);
}

#[test]
fn it_prefers_its_language_to_noise() {
    let (_, model) = shipped();
    let sentence = "KING:\nMy lord, I have not slept these many nights, and yet the morning finds me at the gate.\n";
    let mut backwards: Vec<char> = sentence.chars().collect();
    backwards.reverse();
    let backwards: String = backwards.into_iter().collect();
    let (forth, back) = (bits_a_byte(&model, sentence), bits_a_byte(&model, &backwards));
    // A byte of noise over the 60 characters in use costs 6 bits.
    assert!(forth < 3.5 && back > forth + 1.0, "{forth} forwards, {back} backwards");
}

/// The whole tenth takes half a minute: `servelab-train measure`. This is its beginning.
#[test]
fn held_out_text_costs_what_was_promised() {
    let shared = std::env::var_os("SERVELAB_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")));
    let path = shared.join("corpus/tinyshakespeare.txt");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("NOT CHECKED: no text at {}", path.display());
        return;
    };
    let (_, held_out) = corpus::split(&text);
    let bits = bits_a_byte(&shipped().1, &held_out[..2500]);
    println!("{bits:.3} bits per byte on the first 2 500 held-out bytes");
    assert!(bits < 2.5, "{bits}");
}
