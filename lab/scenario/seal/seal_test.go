package seal_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"testing"

	"homelab/lab/scenario/seal"
)

func certificate(t *testing.T, public, private any) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)}, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// The holder of the key reads what was sealed, for its own Secret alone. End-to-end tests show the same of the controller.
func TestValue(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text, err := seal.Value(certificate(t, &key.PublicKey, key), "default", "web", "secret")
	if err != nil {
		t.Fatal(err)
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	n := int(binary.BigEndian.Uint16(data))
	session, err := rsa.DecryptOAEP(sha256.New(), nil, key, data[2:2+n], []byte("default/web"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := aes.NewCipher(session)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(b)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := gcm.Open(nil, make([]byte, gcm.NonceSize()), data[2+n:], nil); err != nil || string(got) != "secret" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := rsa.DecryptOAEP(sha256.New(), nil, key, data[2:2+n], []byte("default/other")); err == nil {
		t.Error("opens for another Secret")
	}
}

func TestNoCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, cert := range map[string][]byte{
		"empty": nil, "page": []byte("<html>"), "another block": []byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), "elliptic": certificate(t, &key.PublicKey, key),
	} {
		if got, err := seal.Value(cert, "default", "web", "secret"); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}
