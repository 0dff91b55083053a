//! The files of the model that writes: fetched, checked, opened.

use servelab_lab::writing::Codec;
use servelab_spec::protocol::WriterFiles;
use servelab_tinygpt::Tokenizer;
use servelab_tinygpt::shipped::{MANIFEST, Manifest, Model};
use servelab_tinygpt::trained::Get;
use std::rc::Rc;

#[cfg(target_arch = "wasm32")]
use crate::browser::{fetch, fetch_anew};

/// There is nothing to fetch from outside of a browser; the command line opens files.
#[cfg(not(target_arch = "wasm32"))]
async fn fetch(address: &str, _: &mut dyn FnMut(f64, Option<f64>)) -> Result<Vec<u8>, String> {
    Err(format!("{address}: there is no network here"))
}

#[cfg(not(target_arch = "wasm32"))]
async fn fetch_anew(address: &str) -> Result<Vec<u8>, String> {
    fetch(address, &mut |_, _| {}).await
}

/// Files of the trained model for live runs; `anew`: not from what the browser keeps.
pub(super) fn get(anew: bool) -> Get {
    Rc::new(move |file, hash| {
        let address = hash.map_or_else(|| format!("{FOLDER}{file}"), |hash| address(&file, &hash));
        Box::pin(async move { if anew { fetch_anew(&address).await } else { fetch(&address, &mut |_, _| {}).await } })
    })
}

/// The hash in the address keeps the browser's cache apart from an earlier version's file.
fn address(file: &str, hash: &str) -> String {
    format!("{FOLDER}{file}?{}", hash.get(..12).unwrap_or(hash))
}

/// Where the model lies, seen from the worker's script.
const FOLDER: &str = "./model/";

/// A model's tokenizer, as the lab wants it.
pub(super) struct Text(pub(super) Box<dyn Tokenizer>);

impl Codec for Text {
    fn encode(&self, text: &str) -> Vec<u32> {
        self.0.encode(text)
    }

    fn decode(&self, tokens: &[u32]) -> String {
        self.0.decode(tokens)
    }
}

/// The model that comes with the page; or the random reference weights, and why.
pub(super) async fn shipped(loading: &mut dyn FnMut(f64, Option<f64>)) -> (Model, Option<String>) {
    match trained(loading).await {
        Ok(model) => (model, None),
        Err(reason) => {
            let notice = format!(
                "The trained model can not be used: {reason}. Random reference weights write in its place: the times are a \
                 model's, the text is nonsense."
            );
            (Model::stand_in(), Some(notice))
        }
    }
}

async fn trained(loading: &mut dyn FnMut(f64, Option<f64>)) -> Result<Model, String> {
    let quiet = &mut |_, _| {};
    let manifest = fetch(&format!("{FOLDER}{MANIFEST}"), quiet).await?;
    let manifest = Manifest::from_json(&manifest).map_err(|error| error.to_string())?;
    let tokenizer = fetch(&address(&manifest.tokenizer.file, &manifest.tokenizer.sha256), quiet).await?;
    let total = manifest.weights.bytes as f64;
    let weights = address(&manifest.weights.file, &manifest.weights.sha256);
    let weights = fetch(&weights, &mut |received, _| loading(received, Some(total))).await?;
    Model::checked(&manifest, &weights, &tokenizer).map_err(|error| error.to_string())
}

/// The visitor's own.
pub(super) async fn own(files: &WriterFiles, loading: &mut dyn FnMut(f64, Option<f64>)) -> Result<Model, String> {
    let tokenizer = fetch(&files.tokenizer, &mut |_, _| {}).await?;
    let weights = fetch(&files.weights, loading).await?;
    Model::from_files(&weights, &tokenizer).map_err(|error| error.to_string())
}
