package sshd

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
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

// transport sends and receives messages, encrypted with AES-GCM after the first key exchange (RFC 4253, and RFC 5647 as implemented by OpenSSH).
type transport struct {
	conn    net.Conn
	r       *bufio.Reader
	client  string // version string
	session []byte // hash of the first key exchange

	in, out *seal
	write   sync.Mutex
}

// seal is the cipher of one direction.
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

// next returns the next packet's nonce.
func (s *seal) next() []byte {
	nonce := append([]byte(nil), s.nonce...)
	counter := s.nonce[4:]
	binary.BigEndian.PutUint64(counter, binary.BigEndian.Uint64(counter)+1)
	return nonce
}

// greet exchanges version strings.
func (t *transport) greet() error {
	if _, err := io.WriteString(t.conn, version+"\r\n"); err != nil {
		return err
	}
	const maxLine = 255
	line, err := t.r.ReadSlice('\n')
	if err != nil {
		return err
	}
	t.client = strings.TrimRight(string(line), "\r\n")
	if !strings.HasPrefix(t.client, "SSH-2.0-") || len(line) > maxLine {
		return fmt.Errorf("unsupported client version %.40q", t.client)
	}
	return nil
}

// receive returns the next message, skipping those without effect.
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
	header := make([]byte, 4)
	if _, err := io.ReadFull(t.r, header); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(header)
	if size < 1+minPadding || size > maxPacket {
		return nil, fmt.Errorf("invalid packet length %d", size)
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
		if body, err = t.in.Open(body[:0], t.in.next(), body, header); err != nil {
			return nil, err
		}
	}
	padding := int(body[0])
	if 1+padding > len(body) {
		return nil, fmt.Errorf("invalid padding length %d", padding)
	}
	return body[1 : len(body)-padding], nil
}

// send sends a message. It may be called concurrently.
func (t *transport) send(m message) error {
	t.write.Lock()
	defer t.write.Unlock()
	return t.sendLocked(m)
}

// sendLocked is send for callers that hold t.write.
func (t *transport) sendLocked(m message) error {
	block, prefix := 8, 4 // without encryption, padding covers the length field
	if t.out != nil {
		block, prefix = aes.BlockSize, 0
	}
	padding := block - (prefix+1+len(m))%block
	if padding < minPadding {
		padding += block
	}
	header := message{}.num(uint32(1 + len(m) + padding))
	body := make([]byte, 1, 1+len(m)+padding+aes.BlockSize)
	body[0] = byte(padding)
	body = append(body, m...)
	random := make([]byte, padding)
	_, _ = rand.Read(random) // never fails
	body = append(body, random...)
	if t.out != nil {
		body = t.out.Seal(body[:0], t.out.next(), body, header)
	}
	_, err := t.conn.Write(append(header, body...))
	return err
}
