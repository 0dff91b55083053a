//! The files of the model that writes: fetched, checked, opened.

use servelab_lab::writing::Codec;
use servelab_spec::protocol::WriterFiles;
use servelab_tinygpt::Tokenizer;
use servelab_tinygpt::shipped::{MANIFEST, Manifest, Model};

#[cfg(target_arch = "wasm32")]
use crate::browser::fetch;

/// There is nothing to fetch from outside of a browser; the command line opens files.
#[cfg(not(target_arch = "wasm32"))]
async fn fetch(address: &str, _: &mut dyn FnMut(f64, Option<f64>)) -> Result<Vec<u8>, String> {
    Err(format!("{address}: there is no network here"))
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
                 model's, the text is nonsense. Reload to try again."
            );
            (Model::stand_in(), Some(notice))
        }
    }
}

async fn trained(loading: &mut dyn FnMut(f64, Option<f64>)) -> Result<Model, String> {
    let quiet = &mut |_, _| {};
    let manifest = fetch(&format!("{FOLDER}{MANIFEST}"), quiet).await?;
    let manifest = Manifest::from_json(&manifest).map_err(|error| error.to_string())?;
    // The hash in the address keeps the browser's cache apart from an earlier version's file.
    let address = |file: &str, hash: &str| format!("{FOLDER}{file}?{}", hash.get(..12).unwrap_or(hash));
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
