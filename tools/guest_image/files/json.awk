# Flattens JSON: one line for each scalar, "path/to/value TAB text"; control characters in text stay escaped as \n, \t, \\ .
# A guest's metadata holds text of users: nothing in a value can look like another line.
function fail() { exit 1 }
function skip() { while (substr(text, at, 1) ~ /[ \t\r\n]/) at++ }
function hex(digits,   i, n) {
  n = 0
  for (i = 1; i <= 4; i++) n = n * 16 + index("0123456789abcdef", tolower(substr(digits, i, 1))) - 1
  return n
}
# The code at "at", two halves of a surrogate pair taken together.
function point(   code, low) {
  code = hex(substr(text, at, 4))
  at += 4
  if (code < 55296 || code > 57343) return code
  if (code > 56319 || substr(text, at, 2) != "\\u") return 65533
  low = hex(substr(text, at + 2, 4))
  if (low < 56320 || low > 57343) return 65533
  at += 6
  return 65536 + (code - 55296) * 1024 + low - 56320
}
function utf8(code) {
  if (code < 32) return ""
  if (code < 128) return sprintf("%c", code)
  if (code < 2048) return sprintf("%c%c", 192 + int(code / 64), 128 + code % 64)
  if (code < 65536) return sprintf("%c%c%c", 224 + int(code / 4096), 128 + int(code / 64) % 64, 128 + code % 64)
  return sprintf("%c%c%c%c", 240 + int(code / 262144), 128 + int(code / 4096) % 64, 128 + int(code / 64) % 64, 128 + code % 64)
}
function quoted(   out, c) {
  out = ""
  at++
  while (at <= length(text)) {
    c = substr(text, at++, 1)
    if (c == "\"") return out
    if (c != "\\") { out = out c; continue }
    c = substr(text, at++, 1)
    if (c == "n" || c == "t" || c == "\\") out = out "\\" c
    else if (c == "u") out = out utf8(point())
    else if (c == "\"" || c == "/") out = out c
  }
  fail()
}
function value(path,   c, key, i, word) {
  skip()
  c = substr(text, at, 1)
  if (c == "\"") { print path "\t" quoted(); return }
  if (c == "{") {
    for (at++; ; at++) {
      skip()
      if (substr(text, at, 1) == "}") break
      key = quoted()
      skip()
      at++
      value(path == "" ? key : path "/" key)
      skip()
      if (substr(text, at, 1) != ",") break
    }
    at++
    return
  }
  if (c == "[") {
    i = 0
    for (at++; ; at++) {
      skip()
      if (substr(text, at, 1) == "]") break
      value(path "/" i++)
      skip()
      if (substr(text, at, 1) != ",") break
    }
    at++
    return
  }
  word = ""
  while (substr(text, at, 1) ~ /[-+.a-zA-Z0-9]/) word = word substr(text, at++, 1)
  if (word == "") fail()
  print path "\t" word
}
{ text = text $0 "\n" }
END { at = 1; value("") }
