package redact

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// names are the ends of keys whose values are secrets: DB_PASSWORD, client_secret, but not secretName or passwordFile.
const names = `(?:passw(?:or)?d|passphrase|[_-]pwd|secret|token|credentials?|api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key|private[_-]?key|` +
	`encryption[_-]?key|signing[_-]?key|account[_-]?key|shared[_-]?key|ssh[_-]?key|client[_-]?key(?:[_-]?data)?|key[_-]data|webhook[_-]?url|dsn|authorization|cookie)s?`

var sensitive = regexp.MustCompile(`(?i)(?:^|[\w.-])` + names + `$|(?i)^` + names + `$`)

// harmless reports whether the value of a sensitive key cannot be a secret.
func harmless(v string) bool {
	switch strings.ToLower(strings.TrimSpace(v)) {
	case "", "true", "false", "null", "nil", "none", "<nil>", "<none>", "{}", "[]", "|", ">", "|-", ">-", "|+", strings.ToLower(Mark):
		return true
	}
	return strings.Trim(v, "*.x-") == "" || strings.HasPrefix(v, "$(") || strings.HasPrefix(v, "${") || strings.HasPrefix(v, "{{")
}

// words are in every text with such a key, in lower case.
var words = []string{"passw", "passphrase", "pwd", "secret", "token", "credential", "key", "webhook", "dsn", "authorization", "cookie"}

// shape is a secret that is known by its looks. Group 1, which may be empty, is kept, group 2 is the secret, and the rest is kept.
type shape struct {
	// words: a line without any of them, in lower case, is not searched; archives have hundreds of thousands of lines
	words []string
	re    *regexp.Regexp
	// learn: it is certain enough to be looked for elsewhere in other encodings
	learn bool
	// accept decides what the expression cannot; nil accepts all
	accept func(string) bool
}

func hasDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }

// keys are shapes of several lines: whole private keys, and some that are cut off.
var keys = []shape{
	{re: regexp.MustCompile(`()(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)`), learn: true},
	{re: regexp.MustCompile(`()(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:(?:\s|\\[nr])+[A-Za-z0-9+/=]{20,})*)`), learn: true},
}

var shapes = []shape{
	{words: []string{"eyj"}, re: regexp.MustCompile(`()(\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)`), learn: true}, // JSON web tokens
	{words: []string{"authorization"}, re: regexp.MustCompile(`(?i)(\bauthorization["'\\]*\s*[:=]\s*["'\\\[]*)([^\n"'\\\]]+)`), learn: true},
	{words: []string{"cookie"}, re: regexp.MustCompile(`(?i)(\b(?:set-)?cookie["'\\]*\s*[:=]\s*["'\\\[]*)([^\n"'\\\]]+)`)},
	{words: []string{"basic ", "bearer ", "token "}, re: regexp.MustCompile(`(?i)(\b(?:basic|bearer|token)\s+)([\w.~+/=-]{16,})`), learn: true, accept: hasDigit},
	{words: []string{"@"}, re: regexp.MustCompile(`(?i)(\b[a-z][a-z0-9+.-]*://)([^\s/"'<>@]*:[^\s/"'<>]*)@`)},            // user:password
	{words: []string{"@"}, re: regexp.MustCompile(`(?i)(\b[a-z][a-z0-9+.-]*://)([^\s/"'<>@:]{12,})@`), accept: hasDigit}, // a token as the user
	{words: []string{"-u"}, re: regexp.MustCompile(`((?:^|\s)(?:-u|--user)[ =])([^\s:]+:\S+)`)},
	{words: []string{"gh", "github_pat_"}, re: regexp.MustCompile(`()(\bgh[pousr]_\w{16,}|\bgithub_pat_\w{16,})`), learn: true},
	{words: []string{"gl"}, re: regexp.MustCompile(`()(\bgl(?:pat|ptt|dt|rt|cbt|ft|agent|soat|imt|ffct|oas)-[\w-]{16,})`), learn: true},
	{
		words: []string{"akia", "asia", "abia", "acca", "aiza", "ya29.", "sg.", "hvs.", "hvb.", "hvr.", "xox"},
		re:    regexp.MustCompile(`()(\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b|\bAIza[\w-]{35}|\bya29\.[\w-]{16,}|\bSG\.[\w-]{16,}\.[\w-]{16,}|\bhv[sbr]\.[\w-]{16,}|\bxox[a-z]-[\w-]{10,})`), learn: true,
	},
	{
		words: []string{"sk-", "sk_", "rk_", "npm_", "hf_", "dop_v1_", "dckr_pat_", "shpat_", "pypi-", "age-secret", "sha256~", "k8s-aws"},
		re:    regexp.MustCompile(`()(\b[sr]k[-_](?:(?:live|test|proj|ant)[-_])?[\w-]{20,}|\b(?:npm|hf|dop_v1|dckr_pat|shpat)_\w{16,}|\bpypi-[\w-]{32,}|\bAGE-SECRET-KEY-1[0-9A-Z]{20,}|\bsha256~[\w-]{20,}|\bk8s-aws-v1\.[\w-]{20,})`), learn: true,
	},
	{words: []string{"kubeadm join", "bootstrap"}, re: regexp.MustCompile(`(\bkubeadm join [^\n]*--token[ =]|\bbootstrap[ -]token[ :=]+)([a-z0-9]{6}\.[a-z0-9]{16})`), learn: true},
	{words: []string{`"auth`}, re: regexp.MustCompile(`(?i)("auth\\*"\s*:\s*\\*")([A-Za-z0-9+/=]{8,})`), learn: true}, // docker's own configuration
	// A line of YAML, whose value may have blanks.
	{words: words, re: regexp.MustCompile(`(?i)(^\s*(?:- )?["']?[\w.-]*` + names + `["']?:[ \t]+)([^\s{\[|>&*#][^\n]*)`)},
	{words: words, re: regexp.MustCompile(`(?i)(` + names + `["'\\]*[ \t]*(?::=|=>|[:=])[ \t]*\\*")((?:[^"\\\n]|\\[^"])*)`)},
	{words: words, re: regexp.MustCompile(`(?i)(` + names + `["'\\]*[ \t]*(?::=|=>|[:=])[ \t]*\\*')([^'\\\n]*)`)},
	{words: words, re: regexp.MustCompile(`(?i)(` + names + `["'\\]*[ \t]*(?::=|=>|[:=])[ \t]*)([^\s"'\\,;&{}\[\]<>()]+)`)},
	{words: words, re: regexp.MustCompile(`(?i)(--[\w-]*` + names + `\s+)([^\s"'\\-][^\s"']*)`)},
}

// deepest bounds encodings within encodings.
const deepest = 4

// text redacts a text in which anything may stand.
func (r *Redactor) text(s string, depth int) string {
	if s == "" || depth > deepest {
		return s
	}
	if out, ok := r.document(s); ok {
		s = out
	} else {
		s = r.blocks(s)
		s = r.embedded(s)
	}
	if strings.Contains(s, "PRIVATE KEY") {
		for _, shape := range keys {
			s = r.shaped(s, shape)
		}
	}
	s = r.lines(s)
	return r.encoded(r.byValue(s), depth)
}

// lines redacts secrets that their format reveals, line by line.
func (r *Redactor) lines(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		lower := strings.ToLower(line)
		for _, shape := range shapes {
			if slices.ContainsFunc(shape.words, func(word string) bool { return strings.Contains(lower, word) }) {
				line = r.shaped(line, shape)
			}
		}
		b.WriteString(line)
	}
	return b.String()
}

func (r *Redactor) shaped(s string, shape shape) string {
	found := shape.re.FindAllStringSubmatchIndex(s, -1)
	if len(found) == 0 {
		return s
	}
	var b strings.Builder
	end := 0
	for _, m := range found {
		secret := s[m[4]:m[5]]
		if harmless(secret) || strings.Contains(secret, Mark) || shape.accept != nil && !shape.accept(secret) {
			continue
		}
		if word := strings.Trim(secret, `"'`); shape.learn || random(word) {
			r.learned(word)
		}
		b.WriteString(s[end:m[4]] + Mark)
		end = m[5]
	}
	b.WriteString(s[end:])
	return b.String()
}

// learned remembers what a shape found, without the scheme of a header and the user of a URL.
func (r *Redactor) learned(secret string) {
	if strings.HasPrefix(secret, "-----BEGIN") { // by its lines, which may be quoted alone
		for _, line := range strings.Fields(strings.NewReplacer(`\n`, " ", `\r`, " ").Replace(secret)) {
			if len(line) >= 20 && !strings.Contains(line, "-----") {
				r.know(line)
			}
		}
		return
	}
	if _, rest, ok := strings.Cut(secret, " "); ok {
		secret = rest
	}
	if len(secret) >= 10 {
		r.value(secret)
	}
	if _, password, ok := strings.Cut(secret, ":"); ok && len(password) >= 8 {
		r.know(password)
	}
}

// embedded redacts JSON within lines, as structured logs and printed objects have it.
func (r *Redactor) embedded(s string) string {
	if !strings.Contains(s, `{"`) {
		return s
	}
	lines := strings.SplitAfter(s, "\n")
	for i, line := range lines {
		at := strings.Index(line, `{"`)
		if at < 0 {
			continue
		}
		var v any
		dec := json.NewDecoder(strings.NewReader(line[at:]))
		dec.UseNumber()
		if dec.Decode(&v) != nil {
			continue
		}
		rest := line[at+int(dec.InputOffset()):]
		if v, changed := r.tree(v, ""); changed {
			lines[i] = line[:at] + strings.TrimSuffix(string(encode(v, "")), "\n") + rest
		}
	}
	return strings.Join(lines, "")
}

// byValue redacts known secrets in every encoding.
func (r *Redactor) byValue(s string) string {
	if r.hide == nil {
		var forms []string
		for secret := range r.known {
			forms = append(forms, encodings(secret)...)
		}
		// The longest first: a secret may begin with another.
		slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
		pairs := make([]string, 0, 2*len(forms))
		for _, form := range slices.Compact(forms) {
			pairs = append(pairs, form, Mark)
		}
		r.hide = strings.NewReplacer(pairs...)
	}
	return r.hide.Replace(s)
}
