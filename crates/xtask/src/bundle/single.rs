//! The page in one HTML file: for opening from a disk, and for frames in which nothing can be fetched as a script.
//!
//! wasm-bindgen makes classic scripts of the same wasm that the folder has. Wasm, the worker's script and, if wanted, the files of the model that
//! writes lie in the file as text, packed where it pays; what runs in the page itself is inline, and the file's own policy names the hash of each such piece
//! and allows nothing else but workers made from what is in the file.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use crate::context::Context;
use crate::setup::Prepared;
use crate::setup::toolchain::TARGET;

/// Files of the model that writes, where a worker looks for them.
const MODEL: &str = "model";

/// Writes the page as `out`; `model` puts the files of the model that writes into it as well.
pub(super) fn write(context: &Context, prepared: &Prepared, out: &Path, model: bool) -> Result<()> {
    let built = context.target.join(TARGET);
    let scratch = context.scratch()?.join("single");
    let page = bind(context, prepared, &built.join("page/servelab-web.wasm"), &scratch)?;
    let worker = bind(context, prepared, &built.join("release/servelab-worker.wasm"), &scratch)?;
    let read =
        |path: &str| fs::read_to_string(context.root.join(path)).with_context(|| format!("{path} is not readable"));
    let mut kept = vec![
        Kept::packed("servelab-web.wasm", &page.wasm)?,
        Kept::plain("servelab-worker.js", format!("{}\n{}", worker.script, read("www/one/worker.js")?)),
        Kept::packed("servelab-worker.wasm", &worker.wasm)?,
    ];
    if model {
        for entry in fs::read_dir(context.root.join("www").join(MODEL))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            kept.push(Kept::packed(&format!("{MODEL}/{name}"), &fs::read(&path)?)?);
        }
        kept.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let boot = format!("{}\n{}", page.script, read("www/one/page.js")?);
    let html = compose(&read("index.html")?, &boot, &kept, &mut |path| {
        fs::read_to_string(context.root.join(path)).with_context(|| format!("{path} is not readable"))
    })?;
    fs::write(out, html).with_context(|| format!("cannot write {}", out.display()))
}

/// What wasm-bindgen makes of a module.
struct Bound {
    script: String,
    wasm: Vec<u8>,
}

fn bind(context: &Context, prepared: &Prepared, wasm: &Path, out: &Path) -> Result<Bound> {
    let command = prepared.wasm(context, "wasm-bindgen")?.args(["--target", "no-modules", "--no-typescript"]);
    command.arg("--out-dir").arg(out).arg(wasm).run()?;
    let name = wasm.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let script = fs::read_to_string(out.join(format!("{name}.js")))?;
    Ok(Bound { script, wasm: fs::read(out.join(format!("{name}_bg.wasm")))? })
}

/// Something that lies in the file as text.
struct Kept {
    name: String,
    text: String,
}

impl Kept {
    fn plain(name: &str, text: String) -> Self {
        Kept { name: name.into(), text }
    }

    fn packed(name: &str, content: &[u8]) -> Result<Self> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        packer.write_all(content)?;
        Ok(Kept { name: name.into(), text: base64(&packer.finish()?) })
    }
}

/// The index with everything in it. Like the rest of the build it counts on one element of the head in a line.
fn compose(index: &str, boot: &str, kept: &[Kept], read: &mut dyn FnMut(&str) -> Result<String>) -> Result<String> {
    let (mut html, mut styles, mut scripts) = (String::new(), String::new(), Vec::new());
    let mut policy_at = None;
    for line in index.lines() {
        let line = line.trim();
        let named = |attribute: &str| {
            let start = line.split_once(&format!("{attribute}=\""))?.1;
            start.split_once('"').map(|(value, _)| value)
        };
        if line.contains("http-equiv=\"Content-Security-Policy\"") {
            policy_at = Some(html.len());
        } else if line.contains("rel=\"icon\"") {
            let icon = base64(read(named("href").context("an icon without a file")?)?.as_bytes());
            html.push_str(&format!("<link rel=\"icon\" href=\"data:image/svg+xml;base64,{icon}\">\n"));
        } else if line.contains("rel=\"css\"") {
            styles.push_str(&read(named("href").context("a style sheet without a file")?)?);
        } else if line.contains("data-trunk") {
            // Built, or copied beside the page: here it is kept in the file or not there at all.
        } else if line.starts_with("<script") {
            let file = named("src").context("a script without a file")?;
            scripts.push(read(&format!("www/{}", file.trim_start_matches("./")))?);
        } else if line == "</head>" {
            html.push_str(&format!("<style>{styles}</style>\n</head>\n"));
        } else if line == "</body>" {
            for kept in kept {
                html.push_str(&format!(
                    "<script type=\"text/plain\" id=\"kept:{}\">{}</script>\n",
                    kept.name,
                    safe(&kept.text)?
                ));
            }
            scripts.push(boot.to_owned());
            for script in &scripts {
                html.push_str(&format!("<script type=\"module\">{}</script>\n", safe(script)?));
            }
            html.push_str("</body>\n");
        } else {
            html.push_str(line);
            html.push('\n');
        }
    }
    let policy = policy(&styles, &scripts);
    html.insert_str(policy_at.context("the index states no policy")?, &policy);
    Ok(html)
}

/// What may stand between the tags of a script as it is.
fn safe(text: &str) -> Result<&str> {
    let lower = text.to_ascii_lowercase();
    ensure!(!lower.contains("</script") && !lower.contains("<!--"), "a script holds what would end it in HTML");
    Ok(text)
}

fn policy(styles: &str, scripts: &[String]) -> String {
    let hash = |text: &str| format!("'sha256-{}'", base64(&Sha256::digest(text.as_bytes())));
    let scripts = scripts.iter().map(|script| hash(script)).collect::<Vec<_>>().join(" ");
    format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {scripts} 'wasm-unsafe-eval'; worker-src blob:; connect-src \
         blob:; style-src {}; img-src data: blob:; base-uri 'none'; form-action 'none'\">\n",
        hash(styles)
    )
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().enumerate().fold(0_u32, |word, (at, byte)| word | u32::from(*byte) << (16 - 8 * at));
        for digit in 0..4 {
            let filled = digit <= three.len();
            text.push(if filled { char::from(DIGITS[(word >> (18 - 6 * digit)) as usize & 63]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        // RFC 4648, section 10.
        for (plain, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn the_file_asks_for_nothing_and_its_policy_names_what_is_in_it() {
        let kept = [Kept::plain("w.js", "let w = 1;".into()), Kept::packed("w.wasm", b"\0asm").expect("packs")];
        let index = include_str!("../../../../index.html");
        let html = compose(index, "boot();", &kept, &mut |path| Ok(format!("/* {path} */"))).expect("is composed");
        for gone in ["src=", "href=\"./", "href=\"www", "data-trunk", "'self'", "unsafe-inline"] {
            assert!(!html.contains(gone), "{gone} in {html}");
        }
        for there in [
            "/* www/css/base.css */",
            "/* www/frame.js */",
            "boot();</script>",
            "id=\"kept:w.js\">let w = 1;<",
            "<noscript>",
            "boot-status",
        ] {
            assert!(html.contains(there), "{there} not in {html}");
        }
        let hash = base64(&Sha256::digest(b"boot();"));
        let policy = html.find("Content-Security-Policy").expect("states a policy");
        assert!(html.contains(&format!("'sha256-{hash}'")) && policy < html.find("<style").expect("has a style"));
    }

    #[test]
    fn what_would_end_a_script_is_refused() {
        assert!(safe("if (a < b) c();").is_ok());
        assert!(safe("'</SCRIPT>'").is_err() && safe("a <!--b").is_err());
    }
}
