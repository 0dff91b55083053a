//! A static file server on the loopback interface, for looking at the page and for the end-to-end tests.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use tiny_http::{Header, Method, Response, Server, StatusCode};

use crate::bundle::{self, Page};
use crate::context::Context;
use crate::setup::{Needs, prepare};

/// Options of `serve`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Port to listen on; when it is taken, the next free one.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Serve what is in `dist/` without building.
    #[arg(long)]
    no_build: bool,
    /// Build without the GPU model, which compiles for a quarter of an hour the first time.
    #[arg(long, conflicts_with = "no_build")]
    quick: bool,
    /// Rebuild and reload when a source changes (by `trunk serve`).
    #[arg(long, conflicts_with = "no_build")]
    watch: bool,
}

/// How many ports after the wanted one are tried.
const TRIES: u16 = 50;

/// Threads answering requests; a page loads a handful of files at once.
const THREADS: usize = 4;

/// Builds, serves and prints the address, until it is stopped.
pub(crate) fn run(context: &Context, args: &Args) -> Result<()> {
    if args.watch {
        let prepared = prepare(context, Needs::PAGE)?;
        let trunk = bundle::trunk(context, &prepared, "serve", Page::quick(args.quick))?;
        return trunk.args(["--address", "127.0.0.1", "--port"]).arg(args.port.to_string()).run();
    }
    if !args.no_build {
        bundle::build(context, Page::quick(args.quick))?;
    }
    let site = Site::open(&context.dist(), args.port)?;
    println!("ServeLab is at {} (stop with Ctrl-C)", site.address());
    site.answer_forever();
    Ok(())
}

/// A folder being served.
pub(crate) struct Site {
    server: Server,
    folder: PathBuf,
    /// Sent with every file.
    headers: Vec<Header>,
    address: SocketAddr,
}

impl Site {
    /// Listens; port 0 takes any free one.
    pub(crate) fn open(folder: &Path, port: u16) -> Result<Self> {
        let index = fs::read_to_string(folder.join("index.html"))
            .map_err(|error| anyhow!("{} holds no page: {error}; run `cargo xtask build`", folder.display()))?;
        let (server, address) = listen(port)?;
        let mut headers = vec![header("Cache-Control", "no-cache")?, header("X-Content-Type-Options", "nosniff")?];
        if let Some(policy) = content_security_policy(&index) {
            headers.push(header("Content-Security-Policy", &policy)?);
        }
        Ok(Self { server, folder: folder.to_path_buf(), headers, address })
    }

    pub(crate) fn address(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Answers in the background while `work` runs.
    pub(crate) fn answer_during<T>(&self, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| self.answer());
            }
            let result = work();
            for _ in 0..THREADS {
                self.server.unblock();
            }
            result
        })
    }

    fn answer_forever(&self) {
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| self.answer());
            }
        });
    }

    fn answer(&self) {
        for request in self.server.incoming_requests() {
            let reply = match request.method() {
                Method::Get | Method::Head => self.reply(request.url()),
                _ => Response::from_data(b"only GET and HEAD\n".to_vec()).with_status_code(StatusCode(405)),
            };
            // A browser that went away is no error of ours.
            let _ = request.respond(reply);
        }
    }

    fn reply(&self, url: &str) -> Response<std::io::Cursor<Vec<u8>>> {
        let found = local_path(url)
            .map(|path| self.folder.join(path))
            .and_then(|path| fs::read(&path).ok().map(|content| (path, content)));
        let Some((path, content)) = found else {
            return Response::from_data(b"not found\n".to_vec()).with_status_code(StatusCode(404));
        };
        let mut reply = Response::from_data(content);
        for header in self.headers.iter().cloned().chain(header("Content-Type", media_type(&path))) {
            reply.add_header(header);
        }
        reply
    }
}

fn header(name: &str, value: &str) -> Result<Header> {
    Header::from_bytes(name, value)
        .map_err(|()| anyhow!("{name} cannot carry {value:?}: only ASCII travels in a header"))
}

fn listen(port: u16) -> Result<(Server, SocketAddr)> {
    let ports: Vec<u16> = if port == 0 { vec![0] } else { (port..=port.saturating_add(TRIES)).collect() };
    let mut last = None;
    for port in ports {
        match Server::http(SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
            Ok(server) => {
                let Some(address) = server.server_addr().to_ip() else { bail!("the server has no address") };
                return Ok((server, address));
            }
            Err(error) => last = Some(error),
        }
    }
    bail!("no free port from {port} on: {}", last.map_or_else(String::new, |error| error.to_string()))
}

/// The path inside the folder that a URL asks for; `None` when it points outside.
fn local_path(url: &str) -> Option<PathBuf> {
    let path = url.split(['?', '#']).next()?.trim_start_matches('/');
    let path = if path.is_empty() { "index.html" } else { path };
    let path = PathBuf::from(path);
    path.components().all(|part| matches!(part, Component::Normal(_))).then_some(path)
}

fn media_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("json" | "webmanifest") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// The policy that the page states in its head, so that the header sent here is the one it will live under.
fn content_security_policy(index: &str) -> Option<String> {
    let lower = index.to_ascii_lowercase();
    let at = lower.find("http-equiv=\"content-security-policy\"")?;
    let (start, end) = (lower[..at].rfind('<')?, at + lower[at..].find('>')?);
    let tag = &index[start..end];
    let content = tag.find("content=\"").map(|found| found + "content=\"".len())?;
    let value = &tag[content..content + tag[content..].find('"')?];
    Some(value.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn get(address: &str, request: &str) -> String {
        let host = address.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(host).expect("connects");
        write!(stream, "{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("writes");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("reads");
        text
    }

    #[test]
    fn serves_files_with_type_and_policy() {
        let folder = std::env::temp_dir().join(format!("servelab-site-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        let page =
            "<meta http-equiv=\"Content-Security-Policy\" content=\"script-src 'self';\n  worker-src 'self'\"><p>hello";
        fs::write(folder.join("index.html"), page).expect("writes");
        fs::write(folder.join("m.wasm"), b"\0asm").expect("writes");
        let site = Site::open(&folder, 0).expect("listens");
        let address = site.address();
        site.answer_during(|| {
            let index = get(&address, "GET /?a=1");
            assert!(index.starts_with("HTTP/1.1 200"), "{index}");
            assert!(index.contains("Content-Security-Policy: script-src 'self'; worker-src 'self'"), "{index}");
            assert!(index.ends_with("<p>hello"), "{index}");
            assert!(get(&address, "GET /m.wasm").contains("Content-Type: application/wasm"));
            assert!(get(&address, "GET /none.js").starts_with("HTTP/1.1 404"));
            assert!(get(&address, "GET /../secret").starts_with("HTTP/1.1 404"));
            assert!(get(&address, "POST /").starts_with("HTTP/1.1 405"));
        });
        fs::remove_dir_all(&folder).expect("removes");
    }

    #[test]
    fn a_taken_port_is_skipped() {
        let (first, address) = listen(0).expect("any port");
        let (_second, other) = listen(address.port()).expect("the next one");
        assert!(other.port() > address.port());
        drop(first);
    }

    #[test]
    fn paths_stay_inside() {
        assert_eq!(local_path("/"), Some("index.html".into()));
        assert_eq!(local_path("/a/b.js?x=..#y"), Some("a/b.js".into()));
        assert_eq!(local_path("/a/../../etc/passwd"), None);
        assert_eq!(local_path("//etc/passwd"), Some("etc/passwd".into()));
    }

    #[test]
    fn a_page_without_policy_has_none() {
        assert_eq!(content_security_policy("<p>content=\"x\""), None);
        assert_eq!(
            content_security_policy("<META content=\"default-src 'self'\" HTTP-EQUIV=\"Content-Security-Policy\">")
                .as_deref(),
            Some("default-src 'self'")
        );
    }
}
