package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// encodings returns all forms in which a secret may stand in a text.
func encodings(secret string) []string {
	forms := []string{secret, strings.ReplaceAll(secret, "\n", `\n`), url.QueryEscape(secret), url.PathEscape(secret), everyByte(secret)}
	for _, html := range []bool{true, false} {
		once := escaped(secret, html)
		forms = append(forms, once, escaped(once, html)) // twice: a document within a document
	}
	if len(secret) < 6 {
		return forms
	}
	digits := hex.EncodeToString([]byte(secret))
	forms = append(forms, digits, strings.ToUpper(digits))
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			// Only the characters that no neighbour takes part in.
			text := alphabet.EncodeToString(append(make([]byte, before), secret...))
			first, last := (before*8+5)/6, (before+len(secret))*8/6
			if last-first >= 7 {
				forms = append(forms, text[first:last])
			}
		}
	}
	return forms
}

// escaped is a string as JSON has it, without quotes.
func escaped(s string, html bool) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	_ = enc.Encode(s) // any string can be encoded
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`)
}

// everyByte is the URL encoding of someone who escapes all bytes.
func everyByte(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

var (
	base64Text  = regexp.MustCompile(`(?:[A-Za-z0-9+/]{60,}\s*\n\s*)*[A-Za-z0-9+/_-]{12,}={0,2}`)
	hexText     = regexp.MustCompile(`\b(?:[0-9a-fA-F]{2}){8,}\b`)
	percentText = regexp.MustCompile(`[\w.~+*%-]*%[0-9A-Fa-f]{2}[\w.~+*%-]*`)
)

// encoded blackens encoded texts that contain secrets when decoded.
func (r *Redactor) encoded(s string, depth int) string {
	s = percentText.ReplaceAllStringFunc(s, func(word string) string {
		plain, err := url.QueryUnescape(word)
		return r.unless(word, []byte(plain), err, depth)
	})
	s = hexText.ReplaceAllStringFunc(s, func(word string) string {
		plain, err := hex.DecodeString(word)
		return r.unless(word, plain, err, depth)
	})
	return base64Text.ReplaceAllStringFunc(s, func(word string) string {
		// What stands before it may look like a part of it: a path, or a name with a dash.
		for at := 0; ; {
			if r.hides(word[at:], depth) {
				return word[:at] + Mark
			}
			next := strings.IndexAny(word[at:], "/-_+")
			if next < 0 || len(word)-at-next < 12 {
				return word
			}
			at += next + 1
		}
	})
}

// hides reports whether a word is the base64 form of a text with secrets, or of something compressed, as a release of Helm is.
func (r *Redactor) hides(word string, depth int) bool {
	text := strings.NewReplacer("-", "+", "_", "/").Replace(strings.Join(strings.Fields(strings.TrimRight(word, "=")), ""))
	if len(text)%4 == 1 {
		text = text[:len(text)-1]
	}
	plain, err := base64.RawStdEncoding.DecodeString(text)
	return err == nil && (bytes.HasPrefix(plain, []byte{0x1f, 0x8b, 0x08}) || r.unless(word, plain, nil, depth) != word)
}

// unless returns a word, unless it decodes to a text with secrets.
func (r *Redactor) unless(word string, plain []byte, err error, depth int) string {
	if err != nil || !printable(plain) || string(plain) == word {
		return word
	}
	if text := string(plain); r.text(text, depth+1) != text {
		return Mark
	}
	return word
}

func printable(b []byte) bool {
	if len(b) < 6 || !utf8.Valid(b) {
		return false
	}
	return bytes.IndexFunc(b, func(c rune) bool { return c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7f }) < 0
}
