//! Writing at the desk: W5, with a model made of a counter.
#![allow(clippy::unwrap_used)]

use servelab_engine::{ExecuteError, Executor, StepOutput, StepPlan};
use servelab_lab::writing::Codec;
use servelab_spec::Spec;
use servelab_spec::protocol::{DeviceReport, FromWorker, ToWorker, WriterFiles};
use servelab_spec::writing::{WriteRequest, WriterModel};
use servelab_worker::desk::Desk;
use servelab_worker::{Devices, OpenError, Opened, Priced, Scribe};

/// Opens a model unless it is given files that it does not like.
struct Letters;

struct NextLetter;

impl Executor for NextLetter {
    async fn execute(&mut self, _: u32, plan: &StepPlan) -> Result<StepOutput, ExecuteError> {
        let sampled = plan.items.iter().filter(|item| item.sample);
        let tokens = sampled.map(|item| plan.item_tokens(item).last().map_or(0, |last| last + 1)).collect();
        Ok(StepOutput { tokens, seconds: Some(0.001) })
    }

    fn device(&self) -> String {
        "letters".into()
    }
}

struct Bytes;

impl Codec for Bytes {
    fn encode(&self, text: &str) -> Vec<u32> {
        text.bytes().map(u32::from).collect()
    }

    fn decode(&self, tokens: &[u32]) -> String {
        tokens.iter().filter_map(|&token| char::from_u32(token)).collect()
    }
}

impl Devices for Letters {
    type Executor = NextLetter;

    async fn open(&mut self, _: &Spec) -> Result<Opened<NextLetter>, OpenError> {
        Err(OpenError { message: "not here".into(), field: None })
    }

    async fn open_writer(
        &mut self,
        files: Option<&WriterFiles>,
        loading: &mut dyn FnMut(f64, Option<f64>),
    ) -> Result<Scribe<NextLetter>, OpenError> {
        loading(5.0, Some(10.0));
        if files.is_some_and(|files| files.weights == "bad") {
            return Err(OpenError { message: "tensor head has shape [1]; expected is [2]".into(), field: None });
        }
        let model = WriterModel { name: "letters".into(), context: 64, ..WriterModel::default() };
        Ok(Scribe { executor: NextLetter, codec: Box::new(Bytes), model, blocks: 16 })
    }

    async fn measure(&mut self, _: bool) -> Vec<DeviceReport> {
        Vec::new()
    }
}

fn desk() -> Desk<Letters> {
    Desk::new(Letters, || 0.0)
}

fn tell<D: Devices>(desk: &mut Desk<D>, message: ToWorker) -> Vec<FromWorker> {
    let mut said = Vec::new();
    pollster::block_on(desk.hear(message, &mut |answer| said.push(answer)));
    said
}

fn finish<D: Devices>(desk: &mut Desk<D>) -> Vec<FromWorker> {
    let mut said = Vec::new();
    while desk.busy() {
        pollster::block_on(desk.work(&mut |answer| said.push(answer)));
    }
    said
}

fn write(run: u32, prompts: &[&str]) -> ToWorker {
    let prompts = prompts.iter().map(|&prompt| prompt.into()).collect();
    ToWorker::Write { run, request: Box::new(WriteRequest { prompts, max_tokens: 3, ..WriteRequest::default() }) }
}

#[test]
fn the_first_request_loads_the_model_and_every_step_is_shown() {
    let mut desk = desk();
    assert!(tell(&mut desk, write(7, &["abc"])).is_empty());
    let said = finish(&mut desk);
    assert!(matches!(said[0], FromWorker::WriterLoading { run: 7, received: 5.0, total: Some(10.0) }));
    assert!(matches!(&said[1], FromWorker::WriterModel { run: 7, model } if model.name == "letters"));
    let texts: Vec<(String, bool)> = said[2..]
        .iter()
        .map(|message| match message {
            FromWorker::Written { run: 7, written } => (written.lines[0].text.clone(), written.done),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, [("abcd".into(), false), ("abcde".into(), false), ("abcdef".into(), true)]);
    // The second finds the model there, and its cache.
    let prompt = "x".repeat(40);
    tell(&mut desk, write(8, &[&prompt]));
    finish(&mut desk);
    tell(&mut desk, write(9, &[&prompt]));
    let said = finish(&mut desk);
    let Some(FromWorker::Written { run: 9, written }) = said.last() else { panic!("{said:?}") };
    assert_eq!(written.lines[0].cached, Some(32));
    // Another choice of model empties the replica.
    tell(&mut desk, ToWorker::WriterModel { run: 10, files: None });
    assert!(matches!(finish(&mut desk).last(), Some(FromWorker::WriterModel { run: 10, .. })));
    tell(&mut desk, write(11, &[&prompt]));
    let said = finish(&mut desk);
    let Some(FromWorker::Written { written, .. }) = said.last() else { panic!("{said:?}") };
    assert_eq!(written.lines[0].cached, Some(0));
}

#[test]
fn nothing_comes_of_what_was_replaced_or_stopped() {
    let mut desk = desk();
    tell(&mut desk, write(1, &["abc"]));
    tell(&mut desk, write(2, &["xyz"]));
    let said = finish(&mut desk);
    assert!(said.iter().all(|message| !matches!(message, FromWorker::Written { run: 1, .. })));
    tell(&mut desk, write(3, &["abc"]));
    pollster::block_on(desk.work(&mut |_| {}));
    let said = tell(&mut desk, ToWorker::Cancel { run: 3 });
    assert!(matches!(&said[..], [FromWorker::Written { run: 3, written }] if written.done));
    assert!(!desk.busy());
}

#[test]
fn what_is_wrong_is_said_with_its_number() {
    let mut desk = desk();
    let files = Some(WriterFiles { weights: "bad".into(), tokenizer: "any".into() });
    tell(&mut desk, ToWorker::WriterModel { run: 1, files });
    let said = finish(&mut desk);
    assert!(matches!(said.last(), Some(FromWorker::Failed { run: 1, message, .. }) if message.contains("tensor head")));
    tell(&mut desk, write(2, &[]));
    let said = finish(&mut desk);
    assert!(matches!(said.last(), Some(FromWorker::Failed { run: 2, field: Some(field), .. }) if field == "prompts"));
    let said = tell(&mut desk, write(3, &[&"long".repeat(20)]));
    assert!(matches!(&said[..], [FromWorker::Failed { run: 3, message, .. }] if message.starts_with("prompt 1: ")));
    let mut without = Desk::new(Priced, || 0.0);
    tell(&mut without, write(4, &["abc"]));
    let said = finish(&mut without);
    assert!(matches!(said.last(), Some(FromWorker::Failed { run: 4, .. })));
}
