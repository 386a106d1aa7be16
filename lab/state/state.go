// Package state keeps a lab's state between runs: a private folder per lab.
package state

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/bcrypt"

	"homelab/lab"
)

// Dir is the folder of a lab. It is created by Create.
type Dir struct {
	Lab  string
	Path string
}

// Root returns the folder of all labs: $XDG_STATE_HOME/lab, or ~/.local/state/lab. With sudo, ~ is the invoking user's.
func Root() (string, error) { return xdg("XDG_STATE_HOME", ".local/state") }

// CacheRoot returns the cache folder: $XDG_CACHE_HOME/lab, or ~/.cache/lab, likewise.
func CacheRoot() (string, error) { return xdg("XDG_CACHE_HOME", ".cache") }

func xdg(env, fallback string) (string, error) {
	if dir := os.Getenv(env); filepath.IsAbs(dir) { // the XDG specification ignores relative paths
		return filepath.Join(dir, "lab"), nil
	}
	home, err := self().home()
	var known *lab.Error
	if errors.As(err, &known) {
		return "", err
	}
	if err != nil {
		return "", &lab.Error{Exit: lab.ExitFailed, Code: "no_home", Message: "no folder for lab's files", Cure: "set " + env, Err: err}
	}
	return filepath.Join(home, fallback, "lab"), nil
}

// Open returns the folder of a lab without creating it.
func Open(labName string) (*Dir, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	return &Dir{Lab: labName, Path: filepath.Join(root, labName)}, nil
}

// List returns the names of the labs that have a folder.
func List() ([]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("labs: %w", err)
	}
	var names []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(root, e.Name(), recordFile)); err == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Exists reports whether the lab was brought up and not taken down since.
func (d *Dir) Exists() bool {
	_, err := os.Stat(filepath.Join(d.Path, recordFile))
	return err == nil
}

// Kubeconfigs returns the folder of the lab's kubeconfigs.
func (d *Dir) Kubeconfigs() string { return filepath.Join(d.Path, kubeconfigsDir) }

const (
	kubeconfigsDir  = "kubeconfigs"
	recordFile      = "lab.json"
	credentialsFile = "credentials.json"
)

// format is the version of the record. An older lab would drop unknown fields.
const format = 1

// Record is the persistent configuration of a lab.
type Record struct {
	Format int            `json:"format"` // of the file; 0 otherwise
	Lab    string         `json:"lab"`
	Estate string         `json:"estate"` // absolute path; empty for the embedded estate
	Engine                // its fields are the record's own
	Asked  lab.EngineType `json:"engineAsked,omitempty"` // by --engine, overrides the estate
	Images string         `json:"images"`                // requested origin of images
	Former Engine         `json:"formerEngine,omitzero"` // that Engine replaces, until it is fully removed
	Ports  Ports          `json:"ports"`
	Docker Docker         `json:"docker,omitzero"` // of the last run
}

// Docker is a container engine.
type Docker struct {
	ID      string `json:"id"`      // empty if it has none
	Address string `json:"address"` // as the docker command had it
}

// NamespaceOf returns the namespace of a recorded engine, empty for the default.
func (r Record) NamespaceOf(t lab.EngineType) string {
	for _, e := range []Engine{r.Former, r.Engine} {
		if e.Type == t {
			return e.Namespace
		}
	}
	return ""
}

// Engine is an engine as a lab runs it.
type Engine struct {
	Type      lab.EngineType `json:"engine"`
	Shape     lab.Shape      `json:"shape,omitempty"`     // if every cluster runs one
	Namespace string         `json:"namespace,omitempty"` // empty for its default
}

// String names an engine and its shape.
func (e Engine) String() string {
	if e.Shape == lab.ShapeStandalone {
		return string(e.Type) + " on every cluster"
	}
	return string(e.Type)
}

// Ports are the lab's ports on 127.0.0.1, chosen on its creation.
type Ports struct {
	Engine int `json:"argocd"`
	Forge  int `json:"forge"`
}

// Credentials are random, created once per lab, and only printed on request.
type Credentials struct {
	ForgeUser      string    `json:"forgeUser"`
	ForgePassword  string    `json:"forgePassword"`
	EngineUser     string    `json:"argocdUser"`
	EnginePassword string    `json:"argocdPassword"`
	EngineHash     string    `json:"argocdHash"` // bcrypt; stored so that Helm values are stable
	EngineSince    time.Time `json:"argocdSince"`
	WebhookSecret  string    `json:"webhookSecret"`

	ForgeKeys   ForgeKeys         `json:"forgeKeys,omitzero"`
	ForgeTokens map[string]string `json:"forgeTokens,omitempty"` // of the engines' accounts, by user
}

// ForgeKeys are the forge's own secrets.
type ForgeKeys struct {
	Secret   string `json:"secret"` // encrypts what the forge's volume contains
	Internal string `json:"internal"`
	JWT      string `json:"jwt"`
}

// Create creates the folder.
func (d *Dir) Create() error {
	if err := os.MkdirAll(d.Kubeconfigs(), 0o700); err != nil {
		return writeError(d.Kubeconfigs(), err)
	}
	return self().handOver(d.Path)
}

// Load reads the record, which is empty for a new lab.
func (d *Dir) Load() (Record, error) {
	var r Record
	err := d.read(recordFile, &r)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{Lab: d.Lab}, nil
	}
	if err == nil && r.Format > format {
		return Record{}, &lab.Error{
			Exit: lab.ExitFailed, Code: "newer", Message: fmt.Sprintf("lab %s was last changed by a newer version of lab, nothing was touched", d.Lab),
			Details: []string{fmt.Sprintf("%s has format %d, and this version knows %d", filepath.Join(d.Path, recordFile), r.Format, format)},
			Cure:    "use that version, or a later one",
		}
	}
	r.Format = 0
	return r, err
}

// Save writes the record.
func (d *Dir) Save(r Record) error {
	r.Format = format
	return d.write(recordFile, r)
}

// Credentials reads the lab's credentials and creates them on first use.
func (d *Dir) Credentials() (Credentials, error) {
	var c Credentials
	err := d.read(credentialsFile, &c)
	if err == nil && !c.whole() {
		return Credentials{}, d.garbled(credentialsFile, errors.New("it lacks a password"))
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	c = Credentials{ForgeUser: "lab", EngineUser: "admin", EngineSince: time.Now().UTC().Truncate(time.Second)}
	for _, s := range []*string{&c.ForgePassword, &c.EnginePassword, &c.WebhookSecret} {
		*s = password()
	}
	c.ForgeKeys = ForgeKeys{Secret: password(), Internal: password(), JWT: jwtKey()}
	hash, err := bcrypt.GenerateFromPassword([]byte(c.EnginePassword), bcrypt.DefaultCost)
	if err != nil {
		return c, fmt.Errorf("hash a password: %w", err)
	}
	c.EngineHash = string(hash)
	return c, d.write(credentialsFile, c)
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

// Renew replaces what former labs shared with clusters and derived from it: their engines had the forge's password, and the forge's keys were derived from that. The
// secret key remains, as the forge's volume is encrypted with it; the new password does not lead to it.
func (d *Dir) Renew() error {
	c, err := d.Credentials()
	if err != nil || c.ForgeKeys != (ForgeKeys{}) {
		return err
	}
	mac := hmac.New(sha256.New, []byte(c.ForgePassword))
	mac.Write([]byte("lab forge secret key"))
	c.ForgeKeys = ForgeKeys{Secret: hex.EncodeToString(mac.Sum(nil)), Internal: password(), JWT: jwtKey()}
	c.ForgePassword = password()
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

// Remove deletes the folder, including the lock file.
func (d *Dir) Remove() error {
	if err := os.RemoveAll(d.Path); err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	// fails while there are other labs
	_ = os.Remove(filepath.Dir(d.Path))
	return nil
}

// CodeGarbled is the code of the error for an invalid state file.
const CodeGarbled = "garbled"

// SetAside renames invalid state files to NAME.garbled and returns the new paths. lab up recreates their content.
func (d *Dir) SetAside() ([]string, error) {
	var aside []string
	var c Credentials
	for name, err := range map[string]error{recordFile: d.read(recordFile, &Record{}), credentialsFile: d.read(credentialsFile, &c)} {
		var e *lab.Error
		lacks := name == credentialsFile && err == nil && !c.whole()
		if !lacks && (!errors.As(err, &e) || e.Code != CodeGarbled) {
			continue
		}
		file := filepath.Join(d.Path, name)
		if err := os.Rename(file, file+".garbled"); err != nil {
			return aside, fmt.Errorf("state: %w", err)
		}
		aside = append(aside, file+".garbled")
	}
	slices.Sort(aside)
	return aside, nil
}

func (d *Dir) read(name string, into any) error {
	file := filepath.Join(d.Path, name)
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("state: %w", err)
	case err != nil: // it exists: its content is unknown
		return &lab.Error{Exit: lab.ExitFailed, Code: "state", Message: "cannot read " + file, Cure: "make it a file that you can read: chown, chmod", Err: err}
	}
	if err := json.Unmarshal(data, into); err != nil {
		return d.garbled(name, err)
	}
	return nil
}

func (d *Dir) garbled(name string, err error) *lab.Error {
	return &lab.Error{
		Exit: lab.ExitFailed, Code: CodeGarbled, Message: "state file " + filepath.Join(d.Path, name) + " cannot be read",
		Cure: "lab up keeps a copy and recreates it", Err: err,
	}
}

func (d *Dir) write(name string, v any) error {
	if err := d.Create(); err != nil {
		return err
	}
	return d.writeJSON(name, v)
}

// writeJSON writes a file as JSON, without creating the other folders of a lab.
func (d *Dir) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return d.put(name, append(data, '\n'))
}

// put writes a file atomically.
func (d *Dir) put(name string, data []byte) error {
	file := filepath.Join(d.Path, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return writeError(file, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), filepath.Base(name)+".*") // mode 0600
	if err != nil {
		return writeError(file, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return writeError(file, err)
	}
	if err := os.Rename(tmp.Name(), file); err != nil {
		return writeError(file, err)
	}
	return errors.Join(self().handOver(file), syncDir(filepath.Dir(file)))
}

// writeError wraps the error of a write. The old file is unchanged.
func writeError(file string, err error) error {
	e := &lab.Error{Exit: lab.ExitFailed, Code: "state", Message: "cannot write " + file, Err: err}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Cure = "free space there, then run the command again: it resumes"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		e.Cure = "make the folder writable, then run the command again"
	}
	return e
}

// syncDir makes a rename durable, if possible.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	_ = f.Sync() // not supported by every file system
	return f.Close()
}

// FreePort returns prefer if it is free on 127.0.0.1 and not in taken, else the next free port.
func FreePort(prefer int, taken ...int) (int, error) {
	for port := prefer; port < prefer+200; port++ {
		if slices.Contains(taken, port) {
			continue
		}
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("port %d: %w", port, err)
		}
		return port, nil
	}
	return 0, &lab.Error{Exit: lab.ExitFailed, Code: "no_port", Message: fmt.Sprintf("no free port from %d to %d on 127.0.0.1", prefer, prefer+199)}
}

// TakenPorts returns the ports of all labs, running or not.
func TakenPorts() []int {
	names, err := List()
	if err != nil {
		return nil
	}
	var ports []int
	for _, name := range names {
		if d, err := Open(name); err == nil {
			if r, err := d.Load(); err == nil {
				ports = append(ports, r.Ports.Engine, r.Ports.Forge)
			}
		}
	}
	return ports
}
