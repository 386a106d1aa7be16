package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Authority is a certificate authority, in PEM.
type Authority struct {
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

const (
	lifetime = 10 * 365 * 24 * time.Hour // of all certificates, as none is renewed
	skew     = 24 * time.Hour            // tolerated between clocks
)

// NewAuthority makes a certificate authority.
func NewAuthority() (Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Authority{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "lab front"}, NotBefore: time.Now().Add(-skew), NotAfter: time.Now().Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Authority{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Authority{}, err
	}
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return Authority{Cert: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", keyDER)}, nil
}

// certificates returns a certificate signed by a for each host.
func (a Authority) certificates(hosts []string) (map[string]*tls.Certificate, error) {
	ca, err := tls.X509KeyPair([]byte(a.Cert), []byte(a.Key))
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	if !ca.Leaf.IsCA {
		return nil, errors.New("certificate authority: not a CA certificate")
	}
	signed := map[string]*tls.Certificate{}
	for _, host := range hosts {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		template := &x509.Certificate{
			SerialNumber: serial(), Subject: pkix.Name{CommonName: host}, NotBefore: ca.Leaf.NotBefore, NotAfter: ca.Leaf.NotAfter,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = []net.IP{ip}
		} else {
			template.DNSNames = []string{host}
		}
		der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
		if err != nil {
			return nil, fmt.Errorf("certificate for %s: %w", host, err)
		}
		signed[host] = &tls.Certificate{Certificate: [][]byte{der, ca.Certificate[0]}, PrivateKey: key}
	}
	return signed, nil
}

func serial() *big.Int {
	n := make([]byte, 16)
	_, _ = rand.Read(n) // never fails
	return new(big.Int).SetBytes(n)
}
