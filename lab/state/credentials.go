package state

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Credentials are random, created once per lab, and only printed on request.
type Credentials struct {
	ForgeUser      string    `json:"forgeUser"`
	ForgePassword  string    `json:"forgePassword"`
	EngineUser     string    `json:"argocdUser"`
	EnginePassword string    `json:"argocdPassword"`
	EngineHash     string    `json:"argocdHash"` // bcrypt; stored so that Helm values are stable
	EngineSince    time.Time `json:"argocdSince"`
	WebhookSecret  string    `json:"webhookSecret"`

	RegistryUser     string `json:"registryUser,omitempty"`
	RegistryPassword string `json:"registryPassword,omitempty"`
	RegistryHash     string `json:"registryHash,omitempty"` // bcrypt; stored so that the registry's settings are stable

	Authority string `json:"authority,omitempty"` // of the lab's names: certificate and private key, in PEM

	RunnerPassword string `json:"runnerPassword,omitempty"` // of its account, with the forge's gate
	RunnerSecret   string `json:"runnerSecret,omitempty"`   // that signs the forge's calls

	ForgeKeys   ForgeKeys         `json:"forgeKeys,omitzero"`
	ForgeTokens map[string]string `json:"forgeTokens,omitempty"` // of the engines' accounts, by user
}

// ForgeKeys are the forge's own secrets.
type ForgeKeys struct {
	Secret   string `json:"secret"` // encrypts what the forge's volume contains
	Internal string `json:"internal"`
	JWT      string `json:"jwt"`
}

// Credentials reads the lab's credentials. A lab that has none gets other ones at each call until Renew keeps them.
func (d *Dir) Credentials() (Credentials, error) {
	c, err := d.credentials()
	if errors.Is(err, fs.ErrNotExist) {
		return newCredentials()
	}
	return c, err
}

func (d *Dir) credentials() (Credentials, error) {
	var c Credentials
	if err := d.read(credentialsFile, &c); err != nil {
		return Credentials{}, err
	}
	if !c.whole() {
		return Credentials{}, d.garbled(credentialsFile, errors.New("it lacks a password"))
	}
	return c, nil
}

func newCredentials() (Credentials, error) {
	c := Credentials{ForgeUser: "lab", EngineUser: "admin", EngineSince: time.Now().UTC().Truncate(time.Second)}
	for _, s := range []*string{&c.ForgePassword, &c.EnginePassword, &c.WebhookSecret, &c.RunnerPassword, &c.RunnerSecret} {
		*s = password()
	}
	c.ForgeKeys = ForgeKeys{Secret: password(), Internal: password(), JWT: jwtKey()}
	hash, err := bcrypt.GenerateFromPassword([]byte(c.EnginePassword), bcrypt.DefaultCost)
	if err != nil {
		return c, fmt.Errorf("hash a password: %w", err)
	}
	c.EngineHash = string(hash)
	return c, c.addRegistry()
}

// addRegistry adds the credentials of the registry, which former labs do not have. The registry hashes the password for each request: a random one of 142 bits
// needs no costly hash.
func (c *Credentials) addRegistry() error {
	c.RegistryUser, c.RegistryPassword = "lab", password()
	hash, err := bcrypt.GenerateFromPassword([]byte(c.RegistryPassword), bcrypt.MinCost)
	if err != nil {
		return fmt.Errorf("hash a password: %w", err)
	}
	c.RegistryHash = string(hash)
	return nil
}

// Secrets returns what must not leave the lab: the values of its credentials, also those of a newer version, and the texts of its kubeconfigs.
func (d *Dir) Secrets() (values []string, kubeconfigs [][]byte) {
	var c map[string]any
	_ = d.read(credentialsFile, &c) // none, or reported by Credentials
	values = texts(c)
	files, _ := filepath.Glob(filepath.Join(d.Kubeconfigs(), "*"))
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			kubeconfigs = append(kubeconfigs, text)
		}
	}
	return values, kubeconfigs
}

// texts returns the secret values of a group of credentials.
func texts(group map[string]any) (values []string) {
	for name, v := range group {
		switch v := v.(type) {
		case map[string]any:
			values = append(values, texts(v)...)
		case string:
			if !strings.HasSuffix(name, "User") && !strings.HasSuffix(name, "Since") {
				values = append(values, v)
			}
		}
	}
	return values
}

// whole reports whether no field is empty. An empty password would lock the user out of the forge.
func (c Credentials) whole() bool {
	return c.ForgeUser != "" && c.ForgePassword != "" && c.EngineUser != "" && c.EnginePassword != "" && c.WebhookSecret != ""
}

// Renew creates a new lab's credentials, and replaces what former labs shared with clusters and derived from it: their engines had the forge's password, and the
// forge's keys were derived from that. The secret key remains, as the forge's volume is encrypted with it; the new password does not lead to it.
func (d *Dir) Renew() error {
	c, err := d.credentials()
	if errors.Is(err, fs.ErrNotExist) {
		if c, err = newCredentials(); err != nil {
			return err
		}
		return d.write(credentialsFile, c)
	}
	if err != nil || c.ForgeKeys != (ForgeKeys{}) && c.RegistryHash != "" && c.RunnerPassword != "" {
		return err
	}
	if c.RunnerPassword == "" {
		c.RunnerPassword, c.RunnerSecret = password(), password()
	}
	if c.RegistryHash == "" {
		if err := c.addRegistry(); err != nil {
			return err
		}
	}
	if c.ForgeKeys != (ForgeKeys{}) {
		return d.write(credentialsFile, c)
	}
	mac := hmac.New(sha256.New, []byte(c.ForgePassword))
	mac.Write([]byte("lab forge secret key"))
	c.ForgeKeys = ForgeKeys{Secret: hex.EncodeToString(mac.Sum(nil)), Internal: password(), JWT: jwtKey()}
	c.ForgePassword = password()
	return d.write(credentialsFile, c)
}

// SaveAuthority keeps the certificate authority of the lab's names.
func (d *Dir) SaveAuthority(ca string) error {
	c, err := d.credentials()
	if err != nil {
		return err
	}
	c.Authority = ca
	return d.write(credentialsFile, c)
}

// ForgeToken returns the token of an engine's account, or "".
func (d *Dir) ForgeToken(user string) string {
	var c Credentials
	if d.read(credentialsFile, &c) != nil {
		return ""
	}
	return c.ForgeTokens[user]
}

// SaveForgeToken keeps the token of an engine's account; an empty one is forgotten.
func (d *Dir) SaveForgeToken(user, token string) error {
	c, err := d.Credentials()
	if err != nil {
		return err
	}
	if c.ForgeTokens == nil {
		c.ForgeTokens = map[string]string{}
	}
	if c.ForgeTokens[user] = token; token == "" {
		delete(c.ForgeTokens, user)
	}
	return d.write(credentialsFile, c)
}

// jwtKey returns 32 random bytes in unpadded base64 of URLs.
func jwtKey() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// password returns 24 letters and digits, about 142 bits.
func password() string {
	const set = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, 24)
	for i := range b {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(set))))
		if err != nil {
			panic(err) // crypto/rand does not fail on a working kernel; a weak password would be worse
		}
		b[i] = set[n.Int64()]
	}
	return string(b)
}
