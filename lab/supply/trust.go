package supply

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aead.dev/minisign"

	"homelab/lab"
	"homelab/lab/supply/archive"
	"homelab/lab/supply/disk"
	"homelab/lab/supply/meter"
)

// Bundle describes an archive. All but the digest is unverified.
type Bundle struct {
	File   string
	SHA256 string // hexadecimal, of the file
	archive.Contents
}

// String describes the bundle in one line.
func (b Bundle) String() string {
	text := fmt.Sprintf("%s: sha256:%s, %d images and %d charts", filepath.Base(b.File), b.SHA256, len(b.Images), len(b.Charts))
	if b.Made.By == "" {
		return text + ", by an unknown version of lab"
	}
	return text + ", by lab " + b.Made.By + " at " + b.Made.At.Format(time.RFC3339) + ", " + b.Made.From
}

// Inspect reads a bundle's list and computes its digest.
func Inspect(ctx context.Context, file string) (Bundle, error) {
	contents, err := archive.Inspect(file)
	if err != nil {
		return Bundle{}, err
	}
	b := Bundle{File: file, Contents: contents}
	_, err = b.read(ctx, "", nil)
	return b, err
}

// Terms say which bundle a person accepts. A bundle is a node image, which runs privileged: loading it gives whoever
// made it root on this machine.
type Terms struct {
	SHA256 string                                      // only the file with this digest; "sha256:" may precede it
	Key    string                                      // only what this minisign key signed in FILE.minisig: a file, or the key itself
	Any    bool                                        // whatever it is
	Ask    func(context.Context, Bundle) (bool, error) // otherwise; may be nil
	Load   func(sha256, file string) (command string)  // for the cure: how to accept it by its digest
}

// trustedFile records accepted bundles in the state folder, by the digest of their index, which covers all content.
const trustedFile = "bundles.json"

// trusted is a line of the record.
type trusted struct {
	SHA256 string    `json:"sha256"`
	File   string    `json:"file"` // its name then
	When   time.Time `json:"when"`
}

// Accept checks a bundle against the terms and records that it may be loaded. It may be loaded again without terms.
func Accept(ctx context.Context, o Options, file string, t Terms, p lab.Progress) (Bundle, error) {
	contents, err := archive.Inspect(file)
	if err != nil {
		return Bundle{}, err
	}
	b := Bundle{File: file, Contents: contents}
	id, err := bundleID(contents)
	if err != nil {
		return b, err
	}
	record, err := o.trusted()
	if err != nil {
		return b, err
	}
	if known, ok := record[id]; ok && t.SHA256 == "" && t.Key == "" {
		b.SHA256 = known.SHA256
		return b, nil
	}
	signed, err := b.read(ctx, t.Key, p)
	if err != nil {
		return b, err
	}
	want := strings.ToLower(strings.TrimPrefix(t.SHA256, "sha256:"))
	switch {
	case want != "" && want != b.SHA256:
		return b, &lab.Error{
			Exit: lab.ExitInvalid, Code: "digest_differs", Message: filepath.Base(file) + " is not the bundle with that digest", Cure: "copy it again, or ask its author",
			Details: []string{"wanted " + want, "found  " + b.SHA256},
		}
	case want != "" || signed || t.Any:
	default:
		yes := false
		if t.Ask != nil {
			if yes, err = t.Ask(ctx, b); err != nil {
				return b, err
			}
		}
		if !yes {
			return b, b.untrusted(t)
		}
	}
	record[id] = trusted{b.SHA256, filepath.Base(file), time.Now().UTC().Truncate(time.Second)}
	return b, o.saveTrusted(record)
}

func (b Bundle) untrusted(t Terms) error {
	e := &lab.Error{
		Exit: lab.ExitInvalid, Code: "untrusted_bundle", Message: "bundle " + filepath.Base(b.File) + " is not trusted on this machine",
		Details: []string{"its author gets root on this machine: its node image runs privileged"},
	}
	if t.Load != nil {
		e.Cure = "compare its digest with the author's, then: " + t.Load(b.SHA256, b.File)
	}
	return e
}

// read computes the file's digest, and checks its signature if a key is given.
func (b *Bundle) read(ctx context.Context, key string, p lab.Progress) (signed bool, err error) {
	f, err := os.Open(b.File)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	h := sha256.New()
	r := minisign.NewReader(io.TeeReader(meter.New("reading "+filepath.Base(b.File), info.Size(), p).Reader(f), h))
	if _, err := io.Copy(io.Discard, untilDone{ctx, r}); err != nil {
		return false, err
	}
	b.SHA256 = hex.EncodeToString(h.Sum(nil))
	if key == "" {
		return false, nil
	}
	var public minisign.PublicKey
	if text, readErr := os.ReadFile(key); readErr == nil {
		err = public.UnmarshalText(text)
	} else {
		err = public.UnmarshalText([]byte(key))
	}
	if err != nil {
		return false, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "that is neither a minisign public key nor a file with one", Err: err}
	}
	signature, err := os.ReadFile(b.File + signatureSuffix)
	if err == nil && !r.Verify(public, signature) {
		err = errors.New("the signature is not that key's, or not of this file")
	}
	if err != nil {
		return false, &lab.Error{
			Exit: lab.ExitInvalid, Code: "bad_signature", Message: filepath.Base(b.File) + " is not signed by that key", Cure: "ask its author for the bundle and its signature", Err: err,
		}
	}
	return true, nil
}

const signatureSuffix = ".minisig"

// Sign writes FILE.minisig with a minisign key. password is called if the key is encrypted.
func Sign(ctx context.Context, file, keyFile string, password func() (string, error)) error {
	bad := func(err error) error {
		return &lab.Error{
			Exit: lab.ExitInvalid, Code: "usage", Message: "no minisign key in " + keyFile, Cure: "create one with minisign -G", Err: err,
		}
	}
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return bad(err)
	}
	var key minisign.PrivateKey
	if minisign.IsEncrypted(text) {
		secret, err := password()
		if err != nil {
			return err
		}
		if key, err = minisign.DecryptKey(secret, text); err != nil {
			return bad(err)
		}
	} else if err := key.UnmarshalText(bytes.TrimSpace(text)); err != nil {
		return bad(err)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	r := minisign.NewReader(f)
	if _, err := io.Copy(io.Discard, untilDone{ctx, r}); err != nil {
		return err
	}
	return disk.WriteFile(file+signatureSuffix, r.Sign(key))
}

// untilDone ends a copy when its context ends.
type untilDone struct {
	ctx context.Context
	io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(p)
}

// bundleID is the digest of an archive's index, which has the digests of everything else.
func bundleID(c archive.Contents) (string, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("bundle: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

func (o Options) trusted() (map[string]trusted, error) {
	record := map[string]trusted{}
	file := filepath.Join(o.StateDir, trustedFile)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return record, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &record)
	}
	if err != nil {
		return nil, &lab.Error{Exit: lab.ExitFailed, Code: "bad_state", Message: "the record of trusted bundles is unreadable", Cure: "remove " + file, Err: err}
	}
	return record, nil
}

func (o Options) saveTrusted(record map[string]trusted) error {
	data, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
		return err
	}
	return disk.WriteFile(filepath.Join(o.StateDir, trustedFile), append(data, '\n'))
}
