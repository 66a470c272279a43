# Flattens the plain subset of YAML that NoCloud's meta-data is written in: "key: value", and lists or maps one level below a key.
function clean(s) { gsub(/^[ \t]+|[ \t\r]+$/, "", s); gsub(/^["']|["']$/, "", s); return s }
/^[A-Za-z][-_A-Za-z0-9]*:/ {
  top = $0
  sub(/:.*/, "", top)
  rest = $0
  sub(/^[^:]*:/, "", rest)
  rest = clean(rest)
  number = 0
  if (rest != "") print top "\t" rest
  next
}
/^[ \t]*-[ \t]/ { item = $0; sub(/^[ \t]*-[ \t]/, "", item); print top "/" number++ "\t" clean(item); next }
/^[ \t]+[^ \t#-][^:]*:/ {
  item = $0
  sub(/^[ \t]+[^:]*:/, "", item)
  key = $0
  sub(/:.*/, "", key)
  print top "/" clean(key) "\t" clean(item)
}
