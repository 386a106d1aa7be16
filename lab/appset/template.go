package appset

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/Masterminds/sprig/v3"
	"github.com/valyala/fasttemplate"
	"sigs.k8s.io/yaml"

	"homelab/lab/argo"
	"homelab/lab/sandbox"
)

// templates are the parsed strings of an ApplicationSet: Go templates, or plain {{tag}}s.
type templates struct {
	goTemplate bool
	options    []string
	minor      argo.Minor
	badOption  error
	funcs      template.FuncMap
	root       *template.Template // holds the functions, which every new template would copy
	parsed     map[string]rendering
	decoded    map[string]any // JSON values by text
	spent      *spent
	box        *sandbox.Sandbox

	strict    *templates // the same, but a missing parameter is an error
	generator bool       // a generator is rendered
	unknown   string     // what only a running controller knows, if a text that tpl was given has it
}

type rendering struct {
	render func(params map[string]any) (string, error)
	tree   *parse.Tree // of a Go template
	err    error
}

// goOptions are text/template's options; it panics on others.
var goOptions = regexp.MustCompile(`^missingkey=(default|invalid|zero|error)$`)

func newTemplates(goTemplate bool, options []string) *templates {
	t := &templates{goTemplate: goTemplate, options: options, decoded: map[string]any{}, spent: &spent{}}
	t.box = sandbox.New(t.spent.step)
	t.strict = t
	if goTemplate {
		for _, o := range options {
			if !goOptions.MatchString(o) {
				t.badOption = fmt.Errorf("goTemplateOptions: unknown %q: missingkey=error, missingkey=zero or missingkey=default", o)
			}
		}
		strict := *t
		strict.options = append(slices.DeleteFunc(slices.Clone(options), func(o string) bool { return strings.HasPrefix(o, "missingkey=") }), "missingkey=error")
		t.strict = &strict
	}
	t.of(argo.Newest)
	return t
}

// of prepares for a minor.
func (t *templates) of(m argo.Minor) {
	t.minor, t.parsed = m, map[string]rendering{}
	if !t.goTemplate {
		return
	}
	funcs := functions()
	if m.Has(6) {
		funcs["tpl"] = func(string, any) (string, error) { return "", nil } // bound to each text
	}
	t.funcs = t.box.Functions(funcs)
	t.root = template.New("").Funcs(t.funcs)
	if t.strict != t {
		t.strict.minor, t.strict.parsed, t.strict.funcs = t.minor, map[string]rendering{}, t.funcs
		t.strict.root = template.New("").Funcs(t.funcs) // its own, as all templates of a root share options
	}
}

// begin starts the limits of another expansion, for a minor.
func (t *templates) begin(m argo.Minor) {
	*t.spent, t.unknown = spent{}, ""
	t.box.Reset()
	if m == 0 {
		m = argo.Newest
	}
	if m != t.minor {
		t.of(m)
	}
}

func (t *templates) replace(text string, params map[string]any) (string, error) {
	if t.badOption != nil {
		return "", t.badOption
	}
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	r := t.parse(text)
	if r.err != nil {
		return "", r.err
	}
	out, err := r.render(params)
	if err == nil {
		err = t.spent.wrote(len(out))
	}
	return out, err
}

func (t *templates) parse(text string) rendering {
	r, ok := t.parsed[text]
	if !ok {
		if t.goTemplate {
			r = t.parseGo(text)
		} else {
			r = parseTags(text)
		}
		t.parsed[text] = r
	}
	return r
}

func (t *templates) parseGo(text string) rendering {
	tmpl, name := t.root, ""
	if t.minor.Has(3) {
		name = "base" // a template of that name calls itself
	}
	nested := t.minor.Has(6) && strings.Contains(text, "tpl")
	if nested || strings.Contains(text, "define") || strings.Contains(text, "block") { // definitions are not shared between texts
		tmpl = template.New("").Funcs(t.funcs)
	}
	if t.badOption != nil {
		return rendering{err: t.badOption}
	}
	if err := sandbox.Nesting(text); err != nil {
		return rendering{err: err}
	}
	tmpl = tmpl.New(name).Option(t.options...)
	if nested {
		tmpl.Funcs(template.FuncMap{"tpl": t.tpl(tmpl)})
	}
	tmpl, err := tmpl.Parse(text)
	if err != nil {
		return rendering{err: templateError(text, err)}
	}
	tree := tmpl.Tree.Copy()
	sandbox.Guard(tmpl)
	return rendering{tree: tree, render: func(params map[string]any) (string, error) {
		var b strings.Builder
		if err := tmpl.Execute(t.box.Writer(&b), params); err != nil {
			return "", templateError(text, err)
		}
		return b.String(), nil
	}}
}

// failedAt matches the line in an error of a template without a name.
var failedAt = regexp.MustCompile(`^:(\d+)`)

// templateError returns an error about a template: with its text, or the line of it, and without the template's name.
func templateError(text string, err error) error {
	message := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "template: "), "base")
	message = strings.Replace(message, `executing "base"`, `executing ""`, 1)
	if at := failedAt.FindStringSubmatch(message); at != nil {
		if n, _ := strconv.Atoi(at[1]); n > 0 && n <= strings.Count(text, "\n")+1 {
			text = strings.TrimSpace(strings.Split(text, "\n")[n-1])
		}
	}
	return fmt.Errorf("template %q: %s", text, message)
}

// maxTpl limits how deep tpl calls itself.
const maxTpl = 3

// tpl renders a text with the definitions of a template.
func (t *templates) tpl(of *template.Template) func(text string, data any) (string, error) {
	depth := 0
	return func(text string, data any) (string, error) {
		depth++
		defer func() { depth-- }()
		if depth > maxTpl {
			return "", fmt.Errorf("tpl calls itself more than %d times", maxTpl)
		}
		if err := errors.Join(sandbox.Nesting(text), t.spent.step(len(of.Templates())+len(text)/4)); err != nil {
			return "", err
		}
		tmpl, err := of.Clone()
		if err == nil {
			tmpl, err = tmpl.New(of.Name()).Parse(text)
		}
		if err != nil {
			return "", templateError(text, err)
		}
		if name := calls(tmpl.Tree.Root, nondeterministic); name != "" {
			t.unknown = "template function " + name
			return "", errors.New(t.unknown)
		}
		sandbox.Guard(tmpl)
		var b strings.Builder
		if err := tmpl.Execute(t.box.Writer(&b), data); err != nil {
			return "", templateError(text, err)
		}
		if err := t.spent.wrote(b.Len()); err != nil {
			return "", err
		}
		return strings.ReplaceAll(b.String(), "<no value>", ""), nil
	}
}

// tagged matches texts that may have tags: both braces on a line.
var tagged = regexp.MustCompile(`{{.*}}`)

func parseTags(text string) rendering {
	if !tagged.MatchString(text) {
		return rendering{render: func(map[string]any) (string, error) { return text, nil }}
	}
	tmpl, err := fasttemplate.NewTemplate(text, "{{", "}}")
	if err != nil {
		return rendering{err: fmt.Errorf("template %q: %w", text, err)}
	}
	return rendering{render: func(params map[string]any) (string, error) {
		return tmpl.ExecuteFuncString(func(w io.Writer, tag string) (int, error) {
			value, ok := params[strings.TrimSpace(tag)].(string)
			if !ok || strings.TrimSpace(tag) == "" {
				value = "{{" + tag + "}}" // unknown tags are kept
			}
			return io.WriteString(w, value)
		}), nil
	}}
}

// nondeterministic lists template functions with varying results.
var nondeterministic = []string{
	"now", "ago", "shuffle", "uuidv4", "bcrypt", "htpasswd", "encryptAES", "randAlphaNum", "randAlpha", "randAscii", "randNumeric", "randInt", "randBytes",
	"genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey",
}

// functions are Argo CD's template functions: sprig's, without those that reveal the controller's machine, and five of
// its own.
func functions() template.FuncMap {
	f := sprig.TxtFuncMap()
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		delete(f, name)
	}
	f["normalize"] = normalize
	f["slugify"] = slugify
	f["toYaml"] = func(v any) (string, error) {
		data, err := yaml.Marshal(v)
		return strings.TrimSuffix(string(data), "\n"), err
	}
	f["fromYaml"] = func(s string) (map[string]any, error) {
		m := map[string]any{}
		return m, yaml.Unmarshal([]byte(s), &m)
	}
	f["fromYamlArray"] = func(s string) ([]any, error) {
		a := []any{}
		return a, yaml.Unmarshal([]byte(s), &a)
	}
	return f
}

var notInName = regexp.MustCompile(`[^-a-z0-9.]`)

// normalize converts a text to a DNS name of at most 253 bytes.
func normalize(name string) string {
	name = notInName.ReplaceAllString(strings.ToLower(name), "-")
	return strings.Trim(name[:min(len(name), 253)], "-.")
}

var manyDashes = regexp.MustCompile(`-+`)

// slugify converts its last argument to a slug; optional arguments before are the length limit (50) and smart
// truncation (true).
func slugify(args ...any) (string, error) {
	most, betweenWords, name := 50, true, ""
	for i, arg := range args {
		var ok bool
		switch i {
		case len(args) - 1:
			name, ok = arg.(string)
		case 0:
			most, ok = arg.(int)
		case 1:
			betweenWords, ok = arg.(bool)
		default:
			ok = true
		}
		if !ok {
			return "", fmt.Errorf("slugify takes [length [true|false]] text, not %v", arg)
		}
	}
	name = normalize(name)
	if !betweenWords && len(name) >= most {
		if most < 0 {
			return "", fmt.Errorf("slugify cannot cut to %d bytes", most)
		}
		name = name[:most]
	}
	name = strings.Trim(manyDashes.ReplaceAllString(strings.ReplaceAll(name, ".", "-"), "-"), "-")
	if betweenWords && most > 0 && len(name) > most {
		if i := strings.LastIndexByte(name[:most+1], '-'); i >= 0 {
			return name[:i], nil
		}
		return name[:most], nil
	}
	return name, nil
}
