//! A static file server on the loopback interface, for looking at the page and for the end-to-end tests.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};

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

/// A connection that says nothing for so long is closed; until then it costs a sleeping thread.
const PATIENCE: Duration = Duration::from_secs(10);

/// Headers and bytes of a request; browsers send a tenth of that to a page without cookies.
const MOST_HEADERS: usize = 100;
const LONGEST_REQUEST: usize = 64 * 1024;

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
///
/// A thread for each connection, and one request a connection: browsers open connections ahead of need and leave them idle, and a pool
/// of threads can then hold a request back behind one until the browser gives it up, five minutes later.
pub(crate) struct Site {
    listener: TcpListener,
    folder: PathBuf,
    /// The header with the index's policy, which everything is served with that states none of its own.
    policy: String,
    address: SocketAddr,
}

impl Site {
    /// Listens; port 0 takes any free one.
    pub(crate) fn open(folder: &Path, port: u16) -> Result<Self> {
        let index = fs::read_to_string(folder.join("index.html"))
            .map_err(|error| anyhow!("{} holds no page: {error}; run `cargo xtask build`", folder.display()))?;
        if let Some(policy) = content_security_policy(&index).filter(|policy| !is_plain(policy)) {
            bail!("the page's content-security policy cannot travel in a header, which carries ASCII only: {policy}");
        }
        let policy = header(content_security_policy(&index));
        let (listener, address) = listen(port)?;
        Ok(Self { listener, folder: folder.to_path_buf(), policy, address })
    }

    pub(crate) fn address(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Answers in the background while `work` runs.
    pub(crate) fn answer_during<T>(&self, work: impl FnOnce() -> T) -> T {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| self.answer(scope, &ended));
            let result = work();
            ended.store(true, Ordering::SeqCst);
            // The listener waits for a connection; this one tells it to look at the flag.
            let _ = TcpStream::connect(self.address);
            result
        })
    }

    fn answer_forever(&self) {
        std::thread::scope(|scope| self.answer(scope, &AtomicBool::new(false)));
    }

    fn answer<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, ended: &AtomicBool) {
        for stream in self.listener.incoming() {
            if ended.load(Ordering::SeqCst) {
                return;
            }
            // A browser that went away is no error of ours.
            let Ok(stream) = stream else { continue };
            scope.spawn(move || self.converse(stream));
        }
    }

    /// One request and its answer.
    fn converse(&self, mut stream: TcpStream) -> Option<()> {
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let reply = match read_request(&mut stream)? {
            (method, url) if method == "GET" || method == "HEAD" => self.reply(&url, method == "HEAD"),
            _ => short(405, "Method Not Allowed"),
        };
        stream.write_all(&reply).ok()?;
        stream.shutdown(Shutdown::Write).ok()
    }

    fn reply(&self, url: &str, head: bool) -> Vec<u8> {
        let found = local_path(url)
            .map(|path| self.folder.join(path))
            .and_then(|path| fs::read(&path).ok().map(|content| (path, content)));
        let Some((path, content)) = found else { return short(404, "Not Found") };
        let (kind, length) = (media_type(&path), content.len());
        // A page of its own lives under its own policy; two would both have to allow what it does.
        let own = kind.starts_with("text/html").then(|| content_security_policy(&String::from_utf8_lossy(&content)));
        let policy = match own.flatten().filter(|policy| is_plain(policy)) {
            Some(own) => header(Some(own)),
            None => self.policy.clone(),
        };
        let mut reply = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-cache\r\n\
             X-Content-Type-Options: nosniff\r\n{policy}\r\n"
        )
        .into_bytes();
        if !head {
            reply.extend(content);
        }
        reply
    }
}

/// Method and target of a request; `None` when none comes, or something else.
fn read_request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut received = Vec::new();
    let mut part = [0; 4096];
    loop {
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        received.extend_from_slice(&part[..count]);
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        if request.parse(&received).ok()?.is_complete() {
            return Some((request.method?.to_owned(), request.path?.to_owned()));
        }
        if received.len() > LONGEST_REQUEST {
            return None;
        }
    }
}

fn short(status: u16, words: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} {words}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

fn listen(port: u16) -> Result<(TcpListener, SocketAddr)> {
    let ports: Vec<u16> = if port == 0 { vec![0] } else { (port..=port.saturating_add(TRIES)).collect() };
    let mut last = None;
    for port in ports {
        match TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
            Ok(listener) => {
                let address = listener.local_addr()?;
                return Ok((listener, address));
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

fn header(policy: Option<String>) -> String {
    policy.map_or_else(String::new, |policy| format!("Content-Security-Policy: {policy}\r\n"))
}

/// It can travel in a header.
fn is_plain(policy: &str) -> bool {
    policy.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// The policy that the page states in its head, so that the header sent here is the one it will live under.
fn content_security_policy(index: &str) -> Option<String> {
    let lower = index.to_ascii_lowercase();
    // The released page has no quotes where HTML needs none.
    let named = ["http-equiv=\"content-security-policy\"", "http-equiv=content-security-policy"];
    let at = named.iter().find_map(|named| lower.find(named))?;
    let (start, end) = (lower[..at].rfind('<')?, at + lower[at..].find('>')?);
    let tag = &index[start..end];
    let content = tag.find("content=\"").map(|found| found + "content=\"".len())?;
    let value = &tag[content..content + tag[content..].find('"')?];
    Some(value.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
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
        let other = "<meta http-equiv=\"Content-Security-Policy\" content=\"script-src 'none'\">";
        fs::write(folder.join("other.html"), other).expect("writes");
        let site = Site::open(&folder, 0).expect("listens");
        let address = site.address();
        site.answer_during(|| {
            let index = get(&address, "GET /?a=1");
            assert!(index.starts_with("HTTP/1.1 200"), "{index}");
            assert!(index.contains("Content-Security-Policy: script-src 'self'; worker-src 'self'"), "{index}");
            assert!(index.ends_with("<p>hello"), "{index}");
            assert!(get(&address, "GET /m.wasm").contains("Content-Type: application/wasm"));
            let other = get(&address, "GET /other.html");
            assert!(
                other.contains("Content-Security-Policy: script-src 'none'\r\n") && !other.contains("'self'"),
                "{other}"
            );
            assert!(get(&address, "GET /none.js").starts_with("HTTP/1.1 404"));
            assert!(get(&address, "GET /../secret").starts_with("HTTP/1.1 404"));
            assert!(get(&address, "POST /").starts_with("HTTP/1.1 405"));
            assert!(get(&address, "HEAD /m.wasm").ends_with("\r\n\r\n"));
        });
        fs::remove_dir_all(&folder).expect("removes");
    }

    #[test]
    fn idle_connections_hold_nobody_back() {
        let folder = std::env::temp_dir().join(format!("servelab-idle-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        fs::write(folder.join("index.html"), "hello").expect("writes");
        let site = Site::open(&folder, 0).expect("listens");
        let address = site.address();
        site.answer_during(|| {
            let host = address.trim_start_matches("http://").trim_end_matches('/');
            let idle: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(host).expect("connects")).collect();
            let began = std::time::Instant::now();
            for _ in 0..40 {
                assert!(get(&address, "GET /").ends_with("hello"));
            }
            assert!(began.elapsed() < PATIENCE, "they waited for the idle ones");
            drop(idle);
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
        let minified = "<meta charset=utf-8><meta content=\"default-src 'none'\" http-equiv=Content-Security-Policy><meta content=\"x\">";
        assert_eq!(content_security_policy(minified).as_deref(), Some("default-src 'none'"));
    }
}
