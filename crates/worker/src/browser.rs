//! The loop of a worker: messages from the page, slices of work, and panics made known.

use crate::desk::Desk;
use crate::devices::Devices;
use js_sys::Promise;
use servelab_spec::protocol::{FromWorker, ToWorker};
use servelab_spec::wire;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{DedicatedWorkerGlobalScope, MessageEvent};

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn performance_now() -> f64;

    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &js_sys::Function, ms: f64);

    type MessageChannel;
    #[wasm_bindgen(constructor)]
    fn new() -> MessageChannel;
    #[wasm_bindgen(method, getter)]
    fn port1(this: &MessageChannel) -> Port;
    #[wasm_bindgen(method, getter)]
    fn port2(this: &MessageChannel) -> Port;

    #[wasm_bindgen(js_name = fetch)]
    fn fetch_address(address: &str, options: &js_sys::Object) -> Promise;

    type Answer;
    #[wasm_bindgen(method, getter)]
    fn ok(this: &Answer) -> bool;
    #[wasm_bindgen(method, getter)]
    fn status(this: &Answer) -> u16;
    #[wasm_bindgen(method, getter)]
    fn body(this: &Answer) -> Option<Body>;

    type Body;
    #[wasm_bindgen(method, js_name = getReader)]
    fn reader(this: &Body) -> Reader;

    type Reader;
    #[wasm_bindgen(method)]
    fn read(this: &Reader) -> Promise;

    type Piece;
    #[wasm_bindgen(method, getter)]
    fn done(this: &Piece) -> bool;
    #[wasm_bindgen(method, getter)]
    fn value(this: &Piece) -> js_sys::Uint8Array;
    /// What a file is to whoever reads it.
    type Blob;
    #[wasm_bindgen(method, getter)]
    fn size(this: &Blob) -> f64;
    #[wasm_bindgen(method)]
    fn slice(this: &Blob, from: f64, to: f64) -> Blob;
    #[wasm_bindgen(method, js_name = arrayBuffer)]
    fn array_buffer(this: &Blob) -> Promise;

    type Port;
    #[wasm_bindgen(method, setter, js_name = onmessage)]
    fn set_onmessage(this: &Port, callback: Option<&js_sys::Function>);
    #[wasm_bindgen(method, js_name = postMessage)]
    fn post_message(this: &Port, value: &JsValue);
}

/// Wall clock, ms.
pub fn milliseconds() -> f64 {
    performance_now()
}

/// Wall clock, s.
pub fn seconds() -> f64 {
    performance_now() / 1e3
}

/// Serves `devices` for as long as the worker lives.
pub fn serve<D: Devices + 'static>(devices: D) {
    std::panic::set_hook(Box::new(|info| {
        console_error_panic_hook::hook(info);
        say_stopped(&format!("a fault in the program: {info}"));
    }));
    let inbox: Rc<RefCell<Inbox>> = Rc::default();
    let heard = inbox.clone();
    let on_message = Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| {
        let data = event.data();
        // A file crosses as it is, in an object beside the message: it is a handle and not its bytes.
        let beside = |name: &str| js_sys::Reflect::get(&data, &name.into()).ok();
        let text = data.as_string().or_else(|| beside("message")?.as_string()).unwrap_or_default();
        match wire::from_text::<ToWorker>(&text) {
            Ok(message) => {
                let file = if data.is_string() { None } else { beside("file") };
                heard.borrow_mut().push(message, file.filter(JsValue::is_object).map(JsCast::unchecked_into));
            }
            Err(error) => say_stopped(&format!("page and worker do not understand each other ({error}); reload")),
        }
    });
    scope().set_onmessage(Some(on_message.as_ref().unchecked_ref()));
    on_message.forget();
    say(&Desk::<D>::ready());
    wasm_bindgen_futures::spawn_local(work(Desk::new(devices, milliseconds), inbox));
}

async fn work<D: Devices>(mut desk: Desk<D>, inbox: Rc<RefCell<Inbox>>) {
    let turns = Turns::new();
    let mut file = None;
    loop {
        loop {
            let message = inbox.borrow_mut().messages.pop_front();
            let Some((message, with)) = message else { break };
            if matches!(message, ToWorker::TraceOpen { .. }) {
                file = Some(Slices { file: with, at: 0.0 });
            }
            desk.hear(message, &mut |answer| say(&answer)).await;
        }
        if desk.reading() {
            let piece = match &mut file {
                Some(slices) => slices.next().await,
                None => Err("it came without the file".into()),
            };
            match piece {
                Ok(piece) => desk.feed(piece.as_deref(), &mut |answer| say(&answer)),
                Err(reason) => desk.unreadable(&reason, &mut |answer| say(&answer)),
            }
            turns.next().await;
        } else if desk.busy() {
            desk.work(&mut |answer| say(&answer)).await;
            turns.next().await;
        } else {
            Inbox::filled(&inbox).await;
        }
    }
}

/// Messages that came and were not answered yet.
#[derive(Default)]
struct Inbox {
    messages: VecDeque<(ToWorker, Option<Blob>)>,
    /// Called when the next message comes.
    waiting: Option<js_sys::Function>,
}

impl Inbox {
    fn push(&mut self, message: ToWorker, file: Option<Blob>) {
        self.messages.push_back((message, file));
        if let Some(resolve) = self.waiting.take() {
            // Resolving runs nothing before this turn ends.
            let _ = resolve.call0(&JsValue::NULL);
        }
    }

    async fn filled(inbox: &Rc<RefCell<Inbox>>) {
        if inbox.borrow().messages.is_empty() {
            let promise = Promise::new(&mut |resolve, _| inbox.borrow_mut().waiting = Some(resolve));
            let _ = JsFuture::from(promise).await;
        }
    }
}

/// Bytes of a file that are read at a time: some milliseconds' worth.
const PIECE: f64 = 1_048_576.0;

/// A file in slices.
struct Slices {
    file: Option<Blob>,
    at: f64,
}

impl Slices {
    /// The next slice; none at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        let Some(file) = &self.file else { return Err("it came without the file".into()) };
        if self.at >= file.size() {
            return Ok(None);
        }
        let (from, to) = (self.at, (self.at + PIECE).min(file.size()));
        self.at = to;
        let buffer = JsFuture::from(file.slice(from, to).array_buffer()).await;
        // It was moved, deleted or changed while it was being read.
        let buffer =
            buffer.map_err(|_| "the file can not be read any more; has it been changed or moved?".to_owned())?;
        Ok(Some(js_sys::Uint8Array::new(&buffer).to_vec()))
    }
}

/// Turns of the event loop. A channel to oneself yields one without the four milliseconds that browsers add to timers.
struct Turns {
    channel: MessageChannel,
}

impl Turns {
    fn new() -> Self {
        Turns { channel: MessageChannel::new() }
    }

    async fn next(&self) {
        let promise = Promise::new(&mut |resolve, _| {
            self.channel.port1().set_onmessage(Some(&resolve));
            self.channel.port2().post_message(&JsValue::NULL);
        });
        let _ = JsFuture::from(promise).await;
    }
}

/// Waits; for devices that have to.
pub async fn sleep(ms: f64) {
    let promise = Promise::new(&mut |resolve, _| set_timeout(&resolve, ms));
    let _ = JsFuture::from(promise).await;
}

/// Most bytes that are fetched: far more than any model that a tab could run.
const MOST_BYTES: usize = 1 << 30;

/// Fetches a file; `loading` is told of bytes as they come.
///
/// # Errors
/// A sentence with the address in it.
pub async fn fetch(address: &str, loading: &mut dyn FnMut(f64, Option<f64>)) -> Result<Vec<u8>, String> {
    fetch_with(address, &js_sys::Object::new(), loading).await
}

/// Fetches a file from where it lies, whatever copies the browser keeps.
///
/// # Errors
/// As [`fetch`].
pub async fn fetch_anew(address: &str) -> Result<Vec<u8>, String> {
    let options = js_sys::Object::new();
    // A plain object takes any property.
    let _ = js_sys::Reflect::set(&options, &"cache".into(), &"no-store".into());
    fetch_with(address, &options, &mut |_, _| {}).await
}

async fn fetch_with(
    address: &str,
    options: &js_sys::Object,
    loading: &mut dyn FnMut(f64, Option<f64>),
) -> Result<Vec<u8>, String> {
    let said = |error: JsValue| {
        let error = error.dyn_ref::<js_sys::Error>().map_or_else(String::new, |error| error.message().into());
        format!("{address} can not be fetched: {error}")
    };
    let answer: Answer = JsFuture::from(fetch_address(address, options)).await.map_err(said)?.unchecked_into();
    if !answer.ok() {
        return Err(format!("{address} can not be fetched: status {}", answer.status()));
    }
    let mut content = Vec::new();
    let Some(body) = answer.body() else { return Ok(content) };
    let reader = body.reader();
    loop {
        let piece: Piece = JsFuture::from(reader.read()).await.map_err(said)?.unchecked_into();
        if piece.done() {
            return Ok(content);
        }
        let bytes = piece.value().to_vec();
        if content.len() + bytes.len() > MOST_BYTES {
            return Err(format!("{address} is longer than {MOST_BYTES} bytes"));
        }
        content.extend_from_slice(&bytes);
        loading(content.len() as f64, None);
    }
}

fn scope() -> DedicatedWorkerGlobalScope {
    js_sys::global().unchecked_into()
}

fn say(message: &FromWorker) {
    // The types are ours and always have a form as text; sending it can only fail when the page is gone.
    if let Ok(text) = serde_json::to_string(message) {
        let _ = scope().post_message(&text.into());
    }
}

/// What the script around the wasm would say as well: this worker is of no use any more.
fn say_stopped(message: &str) {
    let stopped = js_sys::Object::new();
    let _ = js_sys::Reflect::set(&stopped, &"type".into(), &"stopped".into());
    let _ = js_sys::Reflect::set(&stopped, &"message".into(), &message.into());
    let _ = scope().post_message(&stopped);
}
