// Package redact redacts secrets in texts: by where they stand in a structure, by their shape, and by value in every encoding once they are known.
//
// A scanner such as gitleaks would know more shapes, but finds instead of replacing, decodes less, and brings sixty modules, among them archivers and a
// runtime for WebAssembly.
package redact

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// Mark replaces a secret.
const Mark = "REDACTED"

// Redactor collects secrets and redacts them. It is not safe for concurrent use.
type Redactor struct {
	known map[string]bool
	hide  *strings.Replacer // of all that is known; nil if outdated
}

// New returns a Redactor with known secrets of any length.
func New(secrets ...string) *Redactor {
	r := &Redactor{known: map[string]bool{}}
	for _, s := range secrets {
		r.know(s)
	}
	return r
}

func (r *Redactor) know(secret string) {
	if secret = strings.TrimSpace(secret); secret != "" && secret != Mark && !r.known[secret] {
		r.known[secret], r.hide = true, nil
	}
}

// Learn remembers the secrets of a file, by its structure and shapes, so that they are redacted in others, too.
func (r *Redactor) Learn(name string, data []byte) { r.File(name, data) }

// Environment remembers the secrets among a process's variables, "NAME=value", by their names and shapes.
func (r *Redactor) Environment(variables []string) {
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		if sensitive.MatchString(name) {
			r.keyed(name, value)
		}
		r.text(value, 0)
	}
}

// Secret remembers a value of a Kubernetes Secret.
func (r *Redactor) Secret(key, value string) {
	switch text := strings.TrimSpace(value); {
	case slices.Contains(public, strings.ToLower(key)), len(text) < 6, strings.HasPrefix(text, certificate):
	case strings.ContainsAny(text, "\n{"):
		// A document: as a whole, and what it contains.
		r.know(text)
		r.text(text, 0)
		r.leaves(text)
	default:
		r.know(text)
	}
}

// public are keys of Secrets whose values are not secret, and so common that a report without them could not be read.
var public = []string{
	"name", "server", "url", "type", "project", "namespace", "ca.crt", "tls.crt", "username", "user", "host", "hostname", "port", "email", "enableoci",
	"insecure", "forcehttpbasicauth", "usage-bootstrap-authentication", "usage-bootstrap-signing", "auth-extra-groups", "description", "expiration", "database", "dbname",
}

const certificate = "-----BEGIN CERTIFICATE"

// File returns a file without secrets. A JSON document is redacted by its structure, and formatted again if that changed it.
func (r *Redactor) File(name string, data []byte) []byte {
	if path.Ext(name) == ".json" {
		if v, ok := parse(data); ok {
			v, _ = r.tree(v, "")
			return encode(v, "  ")
		}
	}
	return []byte(r.text(string(data), 0))
}

// parse decodes one JSON document.
func parse(data []byte) (any, bool) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || dec.More() {
		return nil, false
	}
	return v, true
}

func encode(v any, indent string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	_ = enc.Encode(v) // it was decoded from JSON
	return b.Bytes()
}
