//! What a module in Rust needs, without a crate: the imports of abi/SPEC.md, input and
//! output, and just enough JSON to read an envelope. It needs Rust 1.63 or later.
//!
//! Each program uses a part of it.
#![allow(dead_code)]

/// What must happen next.
pub const OK: i32 = 0;
pub const YIELD: i32 = 1;
pub const RETRY: i32 = 2;
pub const USER_ACTION_REQUIRED: i32 = 3;
pub const TERMINAL: i32 = 4;

mod env {
    #[link(wasm_import_module = "extism:host/env")]
    extern "C" {
        pub fn input_length() -> u64;
        pub fn input_load_u8(at: u64) -> u32;
        pub fn input_load_u64(at: u64) -> u64;
        pub fn alloc(length: u64) -> u64;
        pub fn length(offset: u64) -> u64;
        pub fn load_u8(offset: u64) -> u32;
        pub fn load_u64(offset: u64) -> u64;
        pub fn store_u8(offset: u64, value: u32);
        pub fn store_u64(offset: u64, value: u64);
        pub fn output_set(offset: u64, length: u64);
        pub fn error_set(offset: u64);
        pub fn log_debug(offset: u64);
        pub fn log_info(offset: u64);
        pub fn log_warn(offset: u64);
        pub fn log_error(offset: u64);
    }
}

/// A host function of `extism:host/user`. Declare those only that the module calls:
/// `#[link(wasm_import_module = "extism:host/user")] extern "C" { fn app_ensure(request: u64) -> u64; }`
pub type Function = unsafe extern "C" fn(u64) -> u64;

fn gather(length: u64, word: impl Fn(u64) -> u64, byte: impl Fn(u64) -> u32) -> String {
    let mut bytes = Vec::with_capacity(length as usize);
    let mut at = 0;
    while at + 8 <= length {
        bytes.extend_from_slice(&word(at).to_le_bytes());
        at += 8;
    }
    while at < length {
        bytes.push(byte(at) as u8);
        at += 1;
    }
    // A host sends JSON, which is UTF-8.
    String::from_utf8(bytes).unwrap_or_else(|_| fail("the host sent no UTF-8"))
}

/// The input of the call.
pub fn input() -> String {
    unsafe { gather(env::input_length(), |i| env::input_load_u64(i), |i| env::input_load_u8(i)) }
}

/// Makes a block of the host of a text.
fn store(text: &str) -> u64 {
    let bytes = text.as_bytes();
    unsafe {
        let offset = env::alloc(bytes.len() as u64);
        let words = bytes.chunks_exact(8);
        for (i, byte) in words.remainder().iter().enumerate() {
            env::store_u8(offset + (bytes.len() / 8 * 8 + i) as u64, *byte as u32);
        }
        for (i, word) in words.enumerate() {
            let mut eight = [0; 8];
            eight.copy_from_slice(word);
            env::store_u64(offset + i as u64 * 8, u64::from_le_bytes(eight));
        }
        offset
    }
}

/// Sets the output of the call.
pub fn output(text: &str) {
    unsafe { env::output_set(store(text), text.len() as u64) }
}

/// Asks a host function: the JSON of a request for the JSON of a response.
pub fn call(function: Function, request: &str) -> String {
    unsafe {
        let response = function(store(request));
        gather(env::length(response), |i| env::load_u64(response + i), |i| env::load_u8(response + i))
    }
}

/// The levels of the operator's log.
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// Writes a line to the operator's log.
pub fn log(level: Level, line: &str) {
    let offset = store(line);
    unsafe {
        match level {
            Level::Debug => env::log_debug(offset),
            Level::Info => env::log_info(offset),
            Level::Warn => env::log_warn(offset),
            Level::Error => env::log_error(offset),
        }
    }
}

/// Gives the operator a text and traps.
pub fn fail(why: &str) -> ! {
    unsafe { env::error_set(store(why)) }
    std::process::abort()
}

/// The value of a field of an object as it stands there, a string with its quotes. What a
/// host sends is JSON, so that brackets are only counted.
pub fn json<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let bytes = object.as_bytes();
    let skip = |mut i: usize, of: &[u8]| {
        while i < bytes.len() && (bytes[i] <= b' ' || of.contains(&bytes[i])) {
            i += 1;
        }
        i
    };
    let mut i = skip(0, b"");
    if bytes.get(i) != Some(&b'{') {
        return None;
    }
    i += 1;
    loop {
        i = skip(i, b",");
        if bytes.get(i) != Some(&b'"') {
            return None;
        }
        let end = json_end(bytes, i);
        let key = object.get(i + 1..end - 1)?;
        i = skip(end, b":");
        let end = json_end(bytes, i);
        if key == name {
            return object.get(i..end);
        }
        i = end;
    }
}

/// Where the JSON value ends that begins at i.
fn json_end(bytes: &[u8], mut i: usize) -> usize {
    let mut depth = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'"' => {
                i += 1;
                while i < bytes.len() && bytes[i] != b'"' {
                    i += if bytes[i] == b'\\' { 2 } else { 1 };
                }
                i += 1;
                if depth == 0 {
                    return i;
                }
            }
            b'{' | b'[' => {
                depth += 1;
                i += 1;
            }
            b'}' | b']' => {
                if depth == 0 {
                    return i;
                }
                depth -= 1;
                i += 1;
                if depth == 0 {
                    return i;
                }
            }
            c if depth == 0 && (c == b',' || c == b':' || c <= b' ') => return i,
            _ => i += 1,
        }
    }
    bytes.len()
}

/// A string field without its quotes, escapes as they are; empty for anything else.
pub fn json_string<'a>(object: &'a str, name: &str) -> &'a str {
    json(object, name)
        .and_then(|v| v.strip_prefix('"'))
        .and_then(|v| v.strip_suffix('"'))
        .unwrap_or("")
}

/// A whole number, 0 for anything else.
pub fn json_number(object: &str, name: &str) -> i64 {
    json(object, name).and_then(|v| v.parse().ok()).unwrap_or(0)
}
