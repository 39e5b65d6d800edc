package egress

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
)

// allocation is one row of the address registries: a prefix, and whether it leads to the public internet.
type allocation struct {
	prefix netip.Prefix
	public bool
}

// allocations are the IANA special-purpose registries for IPv4 and IPv6, with what else is no destination for a host:
// multicast, and the one public address at which a cloud serves its metadata. The most specific row decides.
func allocations() []allocation {
	row := func(prefix string, public bool) allocation { return allocation{netip.MustParsePrefix(prefix), public} }
	return []allocation{
		row("0.0.0.0/0", true),
		row("0.0.0.0/8", false),        // this network
		row("10.0.0.0/8", false),       // private
		row("100.64.0.0/10", false),    // carrier-grade NAT
		row("127.0.0.0/8", false),      // loopback
		row("168.63.129.16/32", false), // metadata of a cloud
		row("169.254.0.0/16", false),   // link-local, and with it the metadata of most clouds
		row("172.16.0.0/12", false),    // private
		row("192.0.0.0/24", false),     // protocol assignments
		row("192.0.0.9/32", true),      // port control anycast
		row("192.0.0.10/32", true),     // TURN anycast
		row("192.0.2.0/24", false),     // documentation
		row("192.88.99.0/24", false),   // 6to4 relay, retired
		row("192.168.0.0/16", false),   // private
		row("198.18.0.0/15", false),    // benchmarking
		row("198.51.100.0/24", false),  // documentation
		row("203.0.113.0/24", false),   // documentation
		row("224.0.0.0/4", false),      // multicast
		row("240.0.0.0/4", false),      // reserved, broadcast
		row("::/0", false),             // nothing is allocated outside 2000::/3
		row("2000::/3", true),          // global unicast
		row("2001::/23", false),        // protocol assignments, Teredo
		row("2001:1::1/128", true),     // port control anycast
		row("2001:1::2/128", true),     // TURN anycast
		row("2001:1::3/128", true),     // DNS-SD anycast
		row("2001:3::/32", true),       // AMT
		row("2001:4:112::/48", true),   // AS112
		row("2001:20::/28", true),      // ORCHIDv2
		row("2001:30::/28", true),      // drone remote identification
		row("2001:db8::/32", false),    // documentation
		row("3fff::/20", false),        // documentation
	}
}

// public reports whether an address leads to the public internet. An address that embeds an IPv4 address is judged by
// that one (webhooks.md §Egress).
func public(rows []allocation, address netip.Addr) bool {
	if address.Zone() != "" {
		return false // a zone means something on this machine alone
	}
	address = embedded(address)
	longest, verdict := -1, false
	for _, row := range rows {
		if row.prefix.Bits() > longest && row.prefix.Contains(address) {
			longest, verdict = row.prefix.Bits(), row.public
		}
	}
	return verdict
}

// embedded is the IPv4 address inside an IPv6 address: mapped (::ffff:0:0/96), compatible (::/96), NAT64
// (64:ff9b::/96) and 6to4 (2002::/16). Any other address is returned as it is, :: and ::1 included.
func embedded(address netip.Addr) netip.Addr {
	address = address.Unmap()
	if address.Is4() || address.IsUnspecified() || address.IsLoopback() {
		return address
	}
	bytes := address.As16()
	last := netip.AddrFrom4([4]byte(bytes[12:]))
	switch {
	case [12]byte(bytes[:12]) == [12]byte{}:
		return last
	case [12]byte(bytes[:12]) == [12]byte{0x00, 0x64, 0xff, 0x9b}:
		return last
	case bytes[0] == 0x20 && bytes[1] == 0x02:
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	}
	return address
}

// parseNumeric reads the host of a URL that stands for an IPv4 address the way every URL parser does: one to four
// numbers, each decimal, octal (0…) or hexadecimal (0x…), the last one filling what is left. numeric says that the
// host can be nothing else, ok that it is an address.
func parseNumeric(host string) (address netip.Addr, numeric, ok bool) {
	labels := strings.Split(host, ".")
	if !isNumber(labels[len(labels)-1]) {
		return netip.Addr{}, false, false
	}
	if len(labels) > 4 {
		return netip.Addr{}, true, false
	}
	value := uint64(0)
	for i, label := range labels {
		n, err := parseNumber(label)
		last := i == len(labels)-1
		if err != nil || !last && n > 255 || last && n >= 1<<(8*(4-i)) {
			return netip.Addr{}, true, false
		}
		if last {
			value |= n
		} else {
			value |= n << (8 * (3 - i))
		}
	}
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(value)))), true, true
}

// isNumber reports whether a label makes a host one that ends in a number.
func isNumber(label string) bool {
	if label != "" && strings.Trim(label, "0123456789") == "" {
		return true
	}
	hex := strings.ToLower(label)
	return strings.HasPrefix(hex, "0x") && strings.Trim(hex[2:], "0123456789abcdef") == ""
}

func parseNumber(label string) (uint64, error) {
	lower := strings.ToLower(label)
	switch {
	case lower == "0x":
		return 0, nil
	case strings.HasPrefix(lower, "0x"):
		return strconv.ParseUint(lower[2:], 16, 64)
	case len(lower) > 1 && lower[0] == '0':
		return strconv.ParseUint(lower[1:], 8, 64)
	}
	return strconv.ParseUint(lower, 10, 64)
}
