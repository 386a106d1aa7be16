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
	hexText     = regexp.MustCompile(`^(?:[0-9a-fA-F]{2}){8,}$`)
	percentText = regexp.MustCompile(`[\w.~+*%-]*%[0-9A-Fa-f]{2}[\w.~+*%-]*`)
)

// encoded redacts encoded texts that contain secrets when decoded.
func (r *Redactor) encoded(s string, depth int) string {
	if strings.Contains(s, "%") {
		s = percentText.ReplaceAllStringFunc(s, func(word string) string {
			if plain, err := url.QueryUnescape(word); err == nil && r.secret([]byte(plain), depth) && plain != word {
				return Mark
			}
			return word
		})
	}
	var b strings.Builder
	done := 0
	for i := 0; i < len(s); {
		end := i + wordLength(s[i:])
		if end-i >= 12 {
			if at := r.hidden(s[i:end], depth); at >= 0 {
				for end < len(s) && s[end] == '=' {
					end++
				}
				b.WriteString(s[done:i+at] + Mark)
				done = end
			}
		}
		i = max(end, i+1)
	}
	return b.String() + s[done:]
}

// wordLength returns the length of the base64 or hexadecimal word at the beginning of a text. Full lines of nothing else are continued by the next.
func wordLength(s string) int {
	n, line := 0, 0
	for n < len(s) {
		c := s[n]
		switch {
		case c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_':
			n++
			continue
		case (c == '\n' || c == '\r') && n-line >= 60:
			next := n
			for next < len(s) && (s[next] == '\n' || s[next] == '\r' || s[next] == ' ' || s[next] == '\t') {
				next++
			}
			line = next
			if next == len(s) {
				return n
			}
			n = next
			continue
		}
		break
	}
	return n
}

// hidden returns where in a word the encoded form of a text with secrets begins, or -1. What stands before it may look like a part of it: a path, or a
// name with a dash.
func (r *Redactor) hidden(word string, depth int) int {
	if hexText.MatchString(word) {
		if plain, err := hex.DecodeString(word); err == nil && r.secret(plain, depth) {
			return 0
		}
	}
	for at := 0; ; {
		if r.hides(word[at:], depth) {
			return at
		}
		next := strings.IndexAny(word[at:], "/-_+")
		if next < 0 || len(word)-at-next < 12 {
			return -1
		}
		at += next + 1
	}
}

// hides reports whether a word is the base64 form of a text with secrets, or of something compressed, as a release of Helm is.
func (r *Redactor) hides(word string, depth int) bool {
	// Most words are names, which decode to noise: the first bytes show that.
	first, err := base64.RawStdEncoding.DecodeString(standard.Replace(word[:8]))
	if err != nil || !begins(first) && !bytes.HasPrefix(first, compressed) {
		return false
	}
	text := standard.Replace(strings.Join(strings.Fields(word), ""))
	if len(text)%4 == 1 {
		text = text[:len(text)-1]
	}
	plain, err := base64.RawStdEncoding.DecodeString(text)
	return err == nil && (bytes.HasPrefix(plain, compressed) || r.secret(plain, depth))
}

// standard turns the alphabet for URLs into the standard one.
var standard = strings.NewReplacer("-", "+", "_", "/")

// compressed is how gzip begins.
var compressed = []byte{0x1f, 0x8b, 0x08}

// secret reports whether decoded bytes are a text with secrets.
func (r *Redactor) secret(plain []byte, depth int) bool {
	return printable(plain) && r.text(string(plain), depth+1) != string(plain)
}

// begins reports whether bytes begin a text. A character of several bytes may be cut off at their end.
func begins(b []byte) bool {
	for end := len(b); end > len(b)-utf8.UTFMax; end-- {
		if printable(b[:end]) {
			return true
		}
	}
	return false
}

// printable reports whether bytes are a text of at least three characters.
func printable(b []byte) bool {
	if len(b) < 3 || !utf8.Valid(b) {
		return false
	}
	return bytes.IndexFunc(b, func(c rune) bool { return c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7f }) < 0
}
