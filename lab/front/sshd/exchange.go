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

// Supported algorithms, at least one of each kind known to every client. All key exchanges use SHA-256.
var (
	curves = map[string]ecdh.Curve{
		"curve25519-sha256": ecdh.X25519(), "curve25519-sha256@libssh.org": ecdh.X25519(), "ecdh-sha2-nistp256": ecdh.P256(),
	}
	exchanges = []string{"curve25519-sha256", "curve25519-sha256@libssh.org", "ecdh-sha2-nistp256"}
	hostKeys  = []string{"ssh-ed25519"}
	ciphers   = []string{"aes128-gcm@openssh.com"}
)

const keySize, nonceSize = 16, 12

// exchange performs a key exchange, and sends no other messages meanwhile. received is the client's KEXINIT, or nil if not read yet.
func (t *transport) exchange(key ed25519.PrivateKey, received []byte) error {
	t.write.Lock()
	defer t.write.Unlock()
	offered := t.offer()
	if err := t.sendLocked(offered); err != nil {
		return err
	}
	if received == nil {
		var err error
		if received, err = t.receive(); err != nil {
			return err
		}
	}
	curve, wrongGuess, err := choose(received)
	if err != nil {
		return err
	}
	if wrongGuess { // discard it
		if _, err := t.receive(); err != nil {
			return err
		}
	}
	payload, err := t.expect(msgECDHInit)
	if err != nil {
		return err
	}
	f := fields{rest: payload}
	clientPublic := f.text()
	if f.err != nil {
		return f.err
	}
	public, err := curve.NewPublicKey([]byte(clientPublic))
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
	hostKey := message{}.text(hostKeys[0]).text(string(key.Public().(ed25519.PublicKey)))
	serverPublic := string(private.PublicKey().Bytes())
	transcript := message{}.text(t.client).text(version).text(string(received)).text(string(offered)).text(string(hostKey)).text(clientPublic).text(serverPublic)
	hash := sha256.Sum256(append(transcript, shared...))
	if t.session == nil {
		t.session = hash[:]
	}
	signature := message{}.text(hostKeys[0]).text(string(ed25519.Sign(key, hash[:])))
	if err := t.sendLocked(message{msgECDHReply}.text(string(hostKey)).text(serverPublic).text(string(signature))); err != nil {
		return err
	}
	if err := t.sendLocked(message{msgNewKeys}); err != nil {
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

// expect receives a message of the given number, and returns its contents.
func (t *transport) expect(number byte) ([]byte, error) {
	payload, err := t.receive()
	if err != nil {
		return nil, err
	}
	if payload[0] != number {
		return nil, fmt.Errorf("message %d instead of %d", payload[0], number)
	}
	return payload[1:], nil
}

// offer returns the server's KEXINIT, which lists its algorithms.
func (t *transport) offer() message {
	cookie := make([]byte, 16)
	_, _ = rand.Read(cookie) // never fails
	m := append(message{msgKexInit}, cookie...)
	const unused = "hmac-sha2-256" // GCM needs no MAC, but clients abort if none matches
	cipher := strings.Join(ciphers, ",")
	for _, list := range []string{strings.Join(exchanges, ","), hostKeys[0], cipher, cipher, unused, unused, "none", "none", "", ""} {
		m = m.text(list)
	}
	return m.flag(false).num(0)
}

// choose returns the curve for a client's KEXINIT, and whether the client sent a wrong guess.
func choose(kexInit []byte) (curve ecdh.Curve, wrongGuess bool, err error) {
	if kexInit[0] != msgKexInit {
		return nil, false, fmt.Errorf("message %d instead of a key exchange", kexInit[0])
	}
	f := fields{rest: kexInit[1:]}
	f.bytes(16) // cookie
	exchange, hostKey := f.text(), f.text()
	name, err := firstOf(exchange, exchanges)
	for _, x := range []struct {
		client string
		server []string
	}{{hostKey, hostKeys}, {f.text(), ciphers}, {f.text(), ciphers}} {
		_, unsupported := firstOf(x.client, x.server)
		err = errors.Join(err, unsupported)
	}
	for range 6 { // MACs, compression, languages
		f.text()
	}
	guessed := f.flag()
	correct := strings.HasPrefix(exchange+",", exchanges[0]+",") && strings.HasPrefix(hostKey+",", hostKeys[0]+",")
	return curves[name], guessed && !correct, errors.Join(f.err, err)
}
