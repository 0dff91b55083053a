//! Byte-level BPE: any text survives, and a file that is something else is refused by name.
#![cfg(all(feature = "bpe", not(target_arch = "wasm32")))]
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use servelab_tinygpt::{BpeError, BpeTokenizer, Tokenizer};

const TEXT: &str = "the cat sat on the mat, the cat that sat there\nThe mat is the cat's, isn't it?\nthat is that\n";

fn learnt(vocabulary: usize) -> BpeTokenizer {
    BpeTokenizer::learn(TEXT, vocabulary).unwrap()
}

proptest! {
    #[test]
    fn any_text_survives_the_round_trip(text in any::<String>(), words in "(the|cat| |\n|sat's|\u{1f642}|\u{301}){0,40}") {
        let tokenizer = BpeTokenizer::from_json(learnt(300).to_json().unwrap().as_bytes()).unwrap();
        for text in [text, words] {
            let tokens = tokenizer.encode(&text);
            prop_assert!(tokens.iter().all(|&token| (token as usize) < tokenizer.vocabulary()));
            prop_assert!(tokens.len() <= text.len(), "at least a byte a token");
            prop_assert_eq!(tokenizer.decode(&tokens), text);
        }
    }

    #[test]
    fn any_ids_decode_to_something(ids in prop::collection::vec(any::<u32>(), 0..30)) {
        learnt(280).decode(&ids);
    }
}

#[test]
fn frequent_words_become_one_token() {
    assert_eq!(learnt(265).vocabulary(), 265);
    // As many as there are pairs that occur twice.
    let tokenizer = learnt(300);
    assert!((266..300).contains(&tokenizer.vocabulary()));
    assert_eq!(tokenizer.encode(" the").len(), 1);
    assert_eq!(tokenizer.encode("").len(), 0);
    // Counted by hand: within words, "at" occurs ten times, the runner-up "th" eight times. So "at" is the first token after the bytes.
    assert_eq!(learnt(257).encode("at"), [256]);
    assert_eq!(learnt(257).encode("th").len(), 2);
}

#[test]
fn learning_twice_gives_the_same_file() {
    assert_eq!(learnt(300).to_json().unwrap(), learnt(300).to_json().unwrap());
}

#[test]
fn broken_utf8_shows_and_unknown_ids_vanish() {
    let tokenizer = learnt(256);
    let tokens = tokenizer.encode("é");
    assert_eq!(tokens.len(), 2, "nothing is merged");
    assert_eq!(tokenizer.decode(&tokens[..1]), "\u{fffd}");
    assert_eq!(tokenizer.decode(&[tokens[0], tokens[1], 4_000_000_000]), "é");
}

#[test]
fn other_files_are_refused() {
    let reason = |json: &str| BpeTokenizer::from_json(json.as_bytes()).unwrap_err();
    assert!(matches!(reason(""), BpeError::Unreadable { .. }));
    assert!(matches!(reason("{\"version\":\"1.0\"}"), BpeError::Unreadable { .. }));
    let json = learnt(300).to_json().unwrap();
    assert!(matches!(reason(&json[..json.len() / 2]), BpeError::Unreadable { .. }));
    let mut file: serde_json::Value = serde_json::from_str(&json).unwrap();
    file["pre_tokenizer"] = serde_json::Value::Null;
    assert!(reason(&file.to_string()).to_string().contains("byte-level"));
    let mut file: serde_json::Value = serde_json::from_str(&json).unwrap();
    let id = file["model"]["vocab"].as_object_mut().unwrap().remove("B").unwrap();
    file["model"]["vocab"]["BB"] = id;
    assert_eq!(reason(&file.to_string()), BpeError::NotByteLevel { byte: b'B' });
    let mut file: serde_json::Value = serde_json::from_str(&json).unwrap();
    file["model"]["vocab"]["A"] = 4_000_000.into();
    assert!(matches!(reason(&file.to_string()), BpeError::Ids { largest: 4_000_000, .. }));
}
