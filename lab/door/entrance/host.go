// Package entrance derives, from what clusters have, which host names a lab's door serves and where each leads. It is pure, and uses only the standard library, as
// the door is compiled as a separate module.
package entrance

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

const (
	maxName  = 253
	maxLabel = 63
)

// ErrHost means that a Host header holds no host name.
var ErrHost = errors.New("not a host name")

// ParseHost returns the lower-case host name of a Host header, without port and final dot. Addresses are not names.
func ParseHost(header string) (string, error) {
	name, port, found := strings.Cut(header, ":")
	if found {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '+' {
			return "", ErrHost
		}
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if !IsName(name) {
		return "", ErrHost
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return "", ErrHost
	}
	return name, nil
}

// IsName reports whether s is a host name in lower case.
func IsName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range label {
			if c != '-' && c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
				return false
			}
		}
	}
	return true
}

// Within reports whether a name is a domain's or below it.
func Within(name, domain string) bool {
	return name == domain || strings.HasSuffix(name, "."+domain)
}
