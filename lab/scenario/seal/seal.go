// Package seal encrypts values for SealedSecrets, in the format of https://github.com/bitnami/sealed-secrets/blob/main/docs/developer/crypto.md.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
)

var errCertificate = errors.New("not the certificate of an RSA key")

// Value encrypts a value for the holder of the key of a certificate in PEM, for the Secret namespace/name alone. The result is Base64, as in
// spec.encryptedData.
func Value(certificate []byte, namespace, name, value string) (string, error) {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return "", errCertificate
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	public, ok := cert.PublicKey.(*rsa.PublicKey)
	if !ok {
		return "", errCertificate
	}
	session := make([]byte, 32)
	if _, err := rand.Read(session); err != nil {
		return "", err
	}
	key, err := rsa.EncryptOAEP(sha256.New(), rand.Reader, public, session, []byte(namespace+"/"+name))
	if err != nil {
		return "", err
	}
	b, err := aes.NewCipher(session)
	if err != nil {
		return "", err
	}
	gcm, err := cipher.NewGCM(b)
	if err != nil {
		return "", err
	}
	out := append(binary.BigEndian.AppendUint16(nil, uint16(len(key))), key...)
	return base64.StdEncoding.EncodeToString(gcm.Seal(out, make([]byte, gcm.NonceSize()), []byte(value), nil)), nil // the session key is used once
}
