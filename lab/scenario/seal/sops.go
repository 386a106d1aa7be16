package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
	"go.yaml.in/yaml/v3"

	"homelab/lab/strict"
)

// version is the one of SOPS whose format it is.
const version = "3.13.2"

// encrypted are the fields of a manifest that are encrypted.
const encrypted = "^(data|stringData)$"

// File encrypts data and stringData of a manifest for the holder of an age key, as sops encrypt --age RECIPIENT --encrypted-regex does. Source of the format:
// https://github.com/getsops/sops/blob/v3.13.2/sops.go, Tree.Encrypt, and aes/cipher.go. The module itself brings the SDKs of all clouds.
func File(name string, manifest []byte, recipient string, now time.Time) ([]byte, error) {
	doc, problems := strict.ParseOne(name, manifest)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	to, err := age.ParseX25519Recipient(recipient)
	if err != nil { // which repeats what may be a private key
		return nil, fmt.Errorf("%s: the recipient is not a public key of age", name)
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	s := sops{mac: sha512.New()}
	if s.gcm, err = gcm(key); err != nil {
		return nil, err
	}
	if err := s.walk(doc, nil, false); err != nil {
		return nil, fmt.Errorf("%s:%w", name, err)
	}
	var enc bytes.Buffer
	armored := armor.NewWriter(&enc)
	w, err := age.Encrypt(armored, to)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(key); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := armored.Close(); err != nil {
		return nil, err
	}
	modified := now.UTC().Format(time.RFC3339)
	meta, err := yaml.Marshal(map[string]any{"sops": map[string]any{
		"age": []any{map[string]any{"recipient": recipient, "enc": enc.String()}}, "encrypted_regex": encrypted, "lastmodified": modified,
		"mac": s.seal(fmt.Sprintf("%X", s.mac.Sum(nil)), modified, "str"), "version": version,
	}})
	if err != nil {
		return nil, err
	}
	out, err := yaml.Marshal(doc)
	return append(out, meta...), err
}

func gcm(key []byte) (cipher.AEAD, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithNonceSize(b, 32)
}

// sops encrypts the values of a document, and sums all of them.
type sops struct {
	gcm cipher.AEAD
	mac hash.Hash
}

// walk encrypts the values below a node. A list adds nothing to the path.
func (s sops) walk(n *yaml.Node, path []string, secret bool) error {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			within := secret || key.Value == "data" || key.Value == "stringData"
			if err := s.walk(value, append(path, key.Value), within); err != nil {
				return err
			}
			if within { // SOPS encrypts comments, too
				for _, c := range []*yaml.Node{key, value} {
					c.HeadComment, c.LineComment, c.FootComment = "", "", ""
				}
			}
		}
	case yaml.SequenceNode:
		for _, c := range n.Content {
			if err := s.walk(c, path, secret); err != nil {
				return err
			}
		}
	case yaml.ScalarNode:
		text, kind, err := plain(n)
		if err != nil || kind == "" {
			return err
		}
		s.mac.Write([]byte(text))
		if secret && text != "" {
			n.SetString(s.seal(text, strings.Join(path, ":")+":", kind))
		}
	default:
		return unsupported(n)
	}
	return nil
}

func unsupported(n *yaml.Node) error {
	return fmt.Errorf("%d: a value of this type cannot be encrypted", n.Line)
}

// plain returns what SOPS encrypts of a value, and the type that it notes; "" for null, which it leaves.
func plain(n *yaml.Node) (text, kind string, err error) {
	var v any
	if err := n.Decode(&v); err != nil {
		return "", "", fmt.Errorf("%d: %w", n.Line, err)
	}
	switch v := v.(type) {
	case nil:
		return "", "", nil
	case string:
		return v, "str", nil
	case int:
		return strconv.Itoa(v), "int", nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), "float", nil
	case bool:
		return map[bool]string{true: "True", false: "False"}[v], "bool", nil
	}
	return "", "", unsupported(n)
}

func (s sops) seal(text, at, kind string) string {
	iv := make([]byte, s.gcm.NonceSize())
	_, _ = rand.Read(iv) // it never fails
	out := s.gcm.Seal(nil, iv, []byte(text), []byte(at))
	data, tag := out[:len(out)-s.gcm.Overhead()], out[len(out)-s.gcm.Overhead():]
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("ENC[AES256_GCM,data:%s,iv:%s,tag:%s,type:%s]", b64(data), b64(iv), b64(tag), kind)
}
