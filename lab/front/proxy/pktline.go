package proxy

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// flush is the flush packet, which ends a section.
const flush = "0000"

// pktLine returns text as a line of Git's protocol: prefixed by its length in hexadecimal.
// https://git-scm.com/docs/protocol-common#_pkt_line_format
func pktLine(text string) string { return fmt.Sprintf("%04x%s", len(flush)+len(text), text) }

// readPkt reads a line. flushed reports whether it was a flush packet.
func readPkt(r *bufio.Reader) (text string, flushed bool, err error) {
	var header [len(flush)]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return "", false, err
	}
	var size [2]byte
	if _, err := hex.Decode(size[:], header[:]); err != nil {
		return "", false, fmt.Errorf("invalid pkt-line length %q", header)
	}
	n := int(size[0])<<8 | int(size[1])
	if n == 0 {
		return "", true, nil
	}
	if n < len(header) {
		return "", false, fmt.Errorf("invalid pkt-line length %d", n)
	}
	line := make([]byte, n-len(header))
	if _, err := io.ReadFull(r, line); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return "", false, err
	}
	return string(line), false, nil
}
