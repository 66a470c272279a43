# Reads the flattened network_data.json and prints the commands that give one card (-v card, -v mac) its static IPv4 addresses.
# Only addresses and digits reach the output, whatever the file holds; it fails when the card has none.
{ data[$1] = $2 }
function plain(s) { return s ~ /^[0-9.]+$/ ? s : "" }
function bits(mask,   part, n, i, b) {
  n = split(mask, part, ".")
  b = 0
  for (i = 1; i <= n; i++) while (part[i] > 0) { b += part[i] % 2; part[i] = int(part[i] / 2) }
  return b
}
END {
  found = 0
  for (l = 0; ("links/" l "/id") in data; l++) if (tolower(data["links/" l "/ethernet_mac_address"]) == tolower(mac)) link = data["links/" l "/id"]
  for (n = 0; ("networks/" n "/id") in data; n++) {
    at = "networks/" n "/"
    if (data[at "link"] != link || data[at "type"] != "ipv4" || plain(data[at "ip_address"]) == "") continue
    print "ip addr add " plain(data[at "ip_address"]) "/" bits(plain(data[at "netmask"])) " dev " card
    for (r = 0; (at "routes/" r "/network") in data; r++) {
      gateway = plain(data[at "routes/" r "/gateway"])
      if (gateway != "") print "ip route add " plain(data[at "routes/" r "/network"]) "/" bits(plain(data[at "routes/" r "/netmask"])) " via " gateway " dev " card
    }
    found = 1
  }
  for (s = 0; ("services/" s "/type") in data; s++)
    if (found && data["services/" s "/type"] == "dns" && plain(data["services/" s "/address"]) != "")
      print "echo nameserver " plain(data["services/" s "/address"]) " >>/etc/resolv.conf"
  if (found) print "true"
}
