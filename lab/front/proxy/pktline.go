package proxy

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// flush is the pkt-line that ends a section.
const flush = "0000"

// pktLine returns a line as Git's protocol has it: behind its length, in hexadecimal.
// https://git-scm.com/docs/protocol-common#_pkt_line_format
func pktLine(text string) string { return fmt.Sprintf("%04x%s", len(flush)+len(text), text) }

// readPkt reads a line; flushed is true for the end of a section.
func readPkt(r *bufio.Reader) (text string, flushed bool, err error) {
	var head [len(flush)]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", false, err
	}
	var size [2]byte
	if _, err := hex.Decode(size[:], head[:]); err != nil {
		return "", false, fmt.Errorf("%q is no length of a line", head)
	}
	n := int(size[0])<<8 | int(size[1])
	if n == 0 {
		return "", true, nil
	}
	if n < len(head) {
		return "", false, fmt.Errorf("a line of length %d", n)
	}
	line := make([]byte, n-len(head))
	if _, err := io.ReadFull(r, line); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return "", false, err
	}
	return string(line), false, nil
}
