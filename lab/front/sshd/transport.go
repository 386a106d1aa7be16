package sshd

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

const (
	version    = "SSH-2.0-lab"
	maxPacket  = 256 << 10
	minPadding = 4
)

// transport sends and receives messages, once there are keys under AES-GCM (RFC 4253, and RFC 5647 as OpenSSH has it).
type transport struct {
	conn    net.Conn
	r       *bufio.Reader
	client  string // version
	session []byte // the first exchange's hash

	in, out *seal
	write   sync.Mutex
}

// seal is one direction's cipher.
type seal struct {
	cipher.AEAD
	nonce []byte
}

func newSeal(key, nonce []byte) (*seal, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &seal{aead, nonce}, err
}

// next returns the nonce of a packet.
func (s *seal) next() []byte {
	nonce := append([]byte(nil), s.nonce...)
	counter := s.nonce[4:]
	binary.BigEndian.PutUint64(counter, binary.BigEndian.Uint64(counter)+1)
	return nonce
}

// greet exchanges the versions.
func (t *transport) greet() error {
	if _, err := io.WriteString(t.conn, version+"\r\n"); err != nil {
		return err
	}
	const longest = 255
	line, err := t.r.ReadSlice('\n')
	if err != nil {
		return err
	}
	t.client = strings.TrimRight(string(line), "\r\n")
	if !strings.HasPrefix(t.client, "SSH-2.0-") || len(line) > longest {
		return fmt.Errorf("the client speaks %.40q", t.client)
	}
	return nil
}

// receive returns the next message that says something.
func (t *transport) receive() ([]byte, error) {
	for {
		payload, err := t.packet()
		switch {
		case err != nil:
			return nil, err
		case len(payload) == 0:
			return nil, errShort
		case payload[0] == msgDisconnect:
			return nil, io.EOF
		case payload[0] != msgIgnore && payload[0] != msgDebug && payload[0] != msgUnimplemented && payload[0] != msgExtInfo:
			return payload, nil
		}
	}
}

func (t *transport) packet() ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(t.r, head); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head)
	if size < 1+minPadding || size > maxPacket {
		return nil, fmt.Errorf("a packet of %d bytes", size)
	}
	tag := 0
	if t.in != nil {
		tag = t.in.Overhead()
	}
	body := make([]byte, int(size)+tag)
	if _, err := io.ReadFull(t.r, body); err != nil {
		return nil, err
	}
	if t.in != nil {
		var err error
		if body, err = t.in.Open(body[:0], t.in.next(), body, head); err != nil {
			return nil, err
		}
	}
	padding := int(body[0])
	if 1+padding > len(body) {
		return nil, errors.New("a packet that is all padding")
	}
	return body[1 : len(body)-padding], nil
}

// send sends a message.
func (t *transport) send(m message) error {
	t.write.Lock()
	defer t.write.Unlock()
	return t.put(m)
}

// put is send for who holds the lock.
func (t *transport) put(m message) error {
	block, unsealed := 8, 4 // a plain packet's length is padded too
	if t.out != nil {
		block, unsealed = aes.BlockSize, 0
	}
	padding := block - (unsealed+1+len(m))%block
	if padding < minPadding {
		padding += block
	}
	head := message{}.num(uint32(1 + len(m) + padding))
	body := make([]byte, 1, 1+len(m)+padding+aes.BlockSize)
	body[0] = byte(padding)
	body = append(body, m...)
	fill := make([]byte, padding)
	_, _ = rand.Read(fill) // never fails
	body = append(body, fill...)
	if t.out != nil {
		body = t.out.Seal(body[:0], t.out.next(), body, head)
	}
	_, err := t.conn.Write(append(head, body...))
	return err
}
