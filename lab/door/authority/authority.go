// Package authority is a lab's certificate authority: it signs for names below the lab's domain only. It uses only the standard library, as the door is compiled
// as a separate module.
package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

const (
	// Lifetime is how long an authority is valid.
	Lifetime = 10 * 365 * 24 * time.Hour
	// LeafLifetime is how long a server's certificate is valid. Whoever serves it renews it before.
	LeafLifetime = 7 * 24 * time.Hour

	skew = time.Hour // tolerated between clocks
)

// Authority is a certificate authority.
type Authority struct {
	Certificate *x509.Certificate
	Domain      string // "LAB.localhost"
	key         crypto.Signer
}

// New creates an authority for the names below a domain.
func New(domain string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256(public)
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{Organization: []string{"lab"}, CommonName: "lab " + domain}, SubjectKeyId: id[:20],
		NotBefore: now.Add(-skew), NotAfter: now.Add(Lifetime),
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage:                 []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: []string{domain},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	return &Authority{Certificate: c, Domain: domain, key: key}, err
}

// serial returns a random serial number of 127 bits.
func serial() *big.Int {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b)
}

// PEM types
const (
	certificateType = "CERTIFICATE"
	keyType         = "PRIVATE KEY"
)

// PEM returns the certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificateType, Bytes: a.Certificate.Raw})
}

// Marshal returns the certificate and the private key, for Parse.
func (a *Authority) Marshal() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, err
	}
	return append(a.PEM(), pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: der})...), nil
}

// Parse reads what Marshal wrote.
func Parse(data []byte) (*Authority, error) {
	a := &Authority{}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		var err error
		switch block.Type {
		case certificateType:
			a.Certificate, err = x509.ParseCertificate(block.Bytes)
		case keyType:
			var key any
			if key, err = x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
				a.key, _ = key.(crypto.Signer)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case a.Certificate == nil || a.key == nil:
		return nil, errors.New("no certificate with a private key")
	case !a.Certificate.IsCA || len(a.Certificate.PermittedDNSDomains) != 1:
		return nil, errors.New("not an authority for one domain")
	}
	if own, ok := a.key.Public().(interface{ Equal(x crypto.PublicKey) bool }); !ok || !own.Equal(a.Certificate.PublicKey) {
		return nil, errors.New("the private key is another certificate's")
	}
	a.Domain = a.Certificate.PermittedDNSDomains[0]
	return a, nil
}

// Permits reports whether the authority signs for a name: its domain and what is below it.
func (a *Authority) Permits(name string) bool {
	return name == a.Domain || strings.HasSuffix(name, "."+a.Domain)
}

// Issue returns a server's certificate for a name, valid for LeafLifetime.
func (a *Authority) Issue(name string, now time.Time) (*tls.Certificate, error) {
	if !a.Permits(name) {
		return nil, fmt.Errorf("%q is not below %s", name, a.Domain)
	}
	if now.After(a.Certificate.NotAfter) {
		return nil, fmt.Errorf("the authority of %s ended on %s", a.Domain, a.Certificate.NotAfter.Format(time.DateOnly))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	end := now.Add(LeafLifetime)
	if end.After(a.Certificate.NotAfter) {
		end = a.Certificate.NotAfter
	}
	template := &x509.Certificate{ // no common name, which is limited to 64 characters
		SerialNumber: serial(), Subject: pkix.Name{Organization: []string{"lab"}}, DNSNames: []string{name}, NotBefore: now.Add(-skew), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der, a.Certificate.Raw}, PrivateKey: key, Leaf: leaf}, err
}
