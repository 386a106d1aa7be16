package via

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"testing"
)

// The messages that `ip rule add fwmark 1000 table 1000` and `ip route replace default via 172.18.0.2 table 1000` send.
func TestMessages(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Log("the messages below are those of a little-endian machine")
		return
	}
	for want, got := range map[string][]byte{
		"020000000000000100000000" + "08000a00e8030000" + "08000f00e8030000": ruleMessage(1000),
		"020000000004000100000000" + "08000f00e8030000" + "08000500ac120002": routeMessage(1000, netip.MustParseAddr("172.18.0.2")),
	} {
		if hex.EncodeToString(got) != want {
			t.Errorf("got %x, want %s", got, want)
		}
	}
}
