package sshd

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
)

// The algorithms, of which every client has some. All exchanges hash with SHA-256.
var (
	curves = map[string]ecdh.Curve{
		"curve25519-sha256": ecdh.X25519(), "curve25519-sha256@libssh.org": ecdh.X25519(), "ecdh-sha2-nistp256": ecdh.P256(),
	}
	exchanges = []string{"curve25519-sha256", "curve25519-sha256@libssh.org", "ecdh-sha2-nistp256"}
	hostKeys  = []string{"ssh-ed25519"}
	ciphers   = []string{"aes128-gcm@openssh.com"}
)

const keySize, nonceSize = 16, 12

// exchange agrees on keys. received is the client's wish for it, where that has been read. Nothing else is sent meanwhile.
func (t *transport) exchange(key ed25519.PrivateKey, received []byte) error {
	t.write.Lock()
	defer t.write.Unlock()
	ours := t.offer()
	if err := t.put(ours); err != nil {
		return err
	}
	if received == nil {
		var err error
		if received, err = t.receive(); err != nil {
			return err
		}
	}
	curve, guessed, err := choose(received)
	if err != nil {
		return err
	}
	if guessed { // wrongly
		if _, err := t.receive(); err != nil {
			return err
		}
	}
	payload, err := t.expect(msgECDHInit)
	if err != nil {
		return err
	}
	f := fields{rest: payload}
	theirs := f.text()
	if f.err != nil {
		return f.err
	}
	public, err := curve.NewPublicKey([]byte(theirs))
	if err != nil {
		return err
	}
	private, err := curve.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	secret, err := private.ECDH(public)
	if err != nil {
		return err
	}

	shared := message{}.integer(secret)
	host := message{}.text(hostKeys[0]).text(string(key.Public().(ed25519.PublicKey)))
	mine := string(private.PublicKey().Bytes())
	transcript := message{}.text(t.client).text(version).text(string(received)).text(string(ours)).text(string(host)).text(theirs).text(mine)
	hash := sha256.Sum256(append(transcript, shared...))
	if t.session == nil {
		t.session = hash[:]
	}
	signature := message{}.text(hostKeys[0]).text(string(ed25519.Sign(key, hash[:])))
	if err := t.put(message{msgECDHReply}.text(string(host)).text(mine).text(string(signature))); err != nil {
		return err
	}
	if err := t.put(message{msgNewKeys}); err != nil {
		return err
	}
	derive := func(letter byte, size int) []byte {
		sum := sha256.Sum256(append(append(append(append([]byte{}, shared...), hash[:]...), letter), t.session...))
		return sum[:size]
	}
	if t.out, err = newSeal(derive('D', keySize), derive('B', nonceSize)); err != nil {
		return err
	}
	if _, err := t.expect(msgNewKeys); err != nil {
		return err
	}
	t.in, err = newSeal(derive('C', keySize), derive('A', nonceSize))
	return err
}

// expect returns what follows the number of a message.
func (t *transport) expect(number byte) ([]byte, error) {
	payload, err := t.receive()
	if err != nil {
		return nil, err
	}
	if payload[0] != number {
		return nil, fmt.Errorf("message %d in place of %d", payload[0], number)
	}
	return payload[1:], nil
}

// offer is the server's list of algorithms.
func (t *transport) offer() message {
	cookie := make([]byte, 16)
	_, _ = rand.Read(cookie) // never fails
	m := append(message{msgKexInit}, cookie...)
	const unused = "hmac-sha2-256" // of GCM, which needs none; without one a client would not go on
	cipher := strings.Join(ciphers, ",")
	for _, list := range []string{strings.Join(exchanges, ","), hostKeys[0], cipher, cipher, unused, unused, "none", "none", "", ""} {
		m = m.text(list)
	}
	return m.flag(false).num(0)
}

// choose returns the curve for a client's list of algorithms, and whether it sent a wrong guess ahead.
func choose(list []byte) (curve ecdh.Curve, guessed bool, err error) {
	if list[0] != msgKexInit {
		return nil, false, fmt.Errorf("message %d in place of an exchange of keys", list[0])
	}
	f := fields{rest: list[1:]}
	f.bytes(16)
	exchange, host := f.text(), f.text()
	name, err := firstOf(exchange, exchanges)
	for _, x := range []struct {
		client string
		server []string
	}{{host, hostKeys}, {f.text(), ciphers}, {f.text(), ciphers}} {
		_, missing := firstOf(x.client, x.server)
		err = errors.Join(err, missing)
	}
	for range 6 { // MACs, compression, languages
		f.text()
	}
	ahead := f.flag()
	right := strings.HasPrefix(exchange+",", exchanges[0]+",") && strings.HasPrefix(host+",", hostKeys[0]+",")
	return curves[name], ahead && !right, errors.Join(f.err, err)
}
