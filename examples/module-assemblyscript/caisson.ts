// What a module in AssemblyScript needs beside @extism/as-pdk: host functions, errors and
// just enough JSON to read an envelope. The JSON stays in UTF-8, as it travels.
import { Host, LogLevel, Memory } from "@extism/as-pdk";
import { error_set, length } from "@extism/as-pdk/lib/env";

// What must happen next.
export const OK: i32 = 0;
export const YIELD: i32 = 1;
export const RETRY: i32 = 2;
export const USER_ACTION_REQUIRED: i32 = 3;
export const TERMINAL: i32 = 4;

export function utf8(text: string): Uint8Array {
  return Uint8Array.wrap(String.UTF8.encode(text));
}

export function utf16(bytes: Uint8Array): string {
  return String.UTF8.decodeUnsafe(bytes.dataStart, bytes.length);
}

// Host.outputString of version 1.0.0 cuts off text that is not ASCII: it counts the letters
// of the string and not its bytes.
export function output(text: string): void {
  Host.output(utf8(text));
}

export function log(level: LogLevel, line: string): void {
  Host.log(level, line);
}

// Asks a host function: the JSON of a request for the JSON of a response.
export function call(host: (request: u64) => u64, request: Uint8Array): Uint8Array {
  const offset = host(Memory.allocateBytes(request).offset);
  return new Memory(offset, length(offset)).toUint8Array();
}

// Gives the operator a text and traps.
export function fail(why: string): void {
  error_set(Memory.allocateString(why).offset);
  unreachable();
}

// The compiler is told to call this instead of importing env.abort.
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  const what = message === null ? "aborted" : message;
  const where = file === null ? "" : file;
  fail(what + " at " + where + ":" + line.toString() + ":" + column.toString());
}

function skip(bytes: Uint8Array, i: i32, also: u8): i32 {
  while (i < bytes.length && (bytes[i] <= 0x20 || bytes[i] == also)) i++;
  return i;
}

// Where the JSON value ends that begins at i. What a host sends is JSON, so that brackets
// are only counted.
function end(bytes: Uint8Array, i: i32): i32 {
  let depth = 0;
  while (i < bytes.length) {
    const c = bytes[i];
    if (c == 0x22 /* " */) {
      for (i++; i < bytes.length && bytes[i] != 0x22; i++) if (bytes[i] == 0x5c /* \ */) i++;
      i++;
      if (depth == 0) return i;
    } else if (c == 0x7b /* { */ || c == 0x5b /* [ */) {
      depth++;
      i++;
    } else if (c == 0x7d /* } */ || c == 0x5d /* ] */) {
      if (depth == 0) return i;
      depth--;
      i++;
      if (depth == 0) return i;
    } else if (depth == 0 && (c == 0x2c /* , */ || c == 0x3a /* : */ || c <= 0x20)) {
      return i;
    } else {
      i++;
    }
  }
  return bytes.length;
}

// The value of a field of an object as it stands there, a string with its quotes; empty if
// there is no such field. It is a copy: Host.output of version 1.0.0 takes a view for the
// whole of what it is a view of.
export function json(object: Uint8Array, name: string): Uint8Array {
  const none = new Uint8Array(0);
  const want = utf8(name);
  let i = skip(object, 0, 0x20);
  if (i >= object.length || object[i] != 0x7b) return none;
  i++;
  while (true) {
    i = skip(object, i, 0x2c);
    if (i >= object.length || object[i] != 0x22) return none;
    const keyEnd = end(object, i);
    const same =
      keyEnd - i - 2 == want.length && memory.compare(object.dataStart + i + 1, want.dataStart, want.length) == 0;
    i = skip(object, keyEnd, 0x3a);
    const valueEnd = end(object, i);
    if (same) return object.slice(i, valueEnd);
    i = valueEnd;
  }
}

// A string field without its quotes, escapes as they are; empty for anything else.
export function jsonString(object: Uint8Array, name: string): string {
  const value = json(object, name);
  if (value.length < 2 || value[0] != 0x22) return "";
  return utf16(value.subarray(1, value.length - 1));
}

// A whole number, 0 for anything else.
export function jsonNumber(object: Uint8Array, name: string): i64 {
  const value = json(object, name);
  return value.length == 0 || value[0] == 0x22 ? 0 : I64.parseInt(utf16(value));
}
