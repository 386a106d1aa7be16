package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"homelab/lab"
)

// Gitea is a repository of Gitea, as an account sees it.
type Gitea struct {
	URL             string // "http://lab-demo-forge:3000/"
	Owner, Name     string // of the repository
	User, Password  string // of the account; the password may be a token
	client          http.Client
	MaxPack, MaxAPI int64 // bytes of an answer
}

// NewGitea returns a repository. It makes no requests. Redirects are not followed: they would get the credentials; nor is a proxy used.
func NewGitea(address, owner, name, user, password string) *Gitea {
	const patience = 30 * time.Second
	return &Gitea{
		URL: address, Owner: owner, Name: name, User: user, Password: password, MaxPack: 65 << 20, MaxAPI: 32 << 20,
		client: http.Client{
			Transport:     &http.Transport{ResponseHeaderTimeout: patience, IdleConnTimeout: patience},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// refused is a status other than success.
type refused struct {
	status int
	what   string
}

func (r refused) Error() string { return fmt.Sprintf("%s: the forge answers %d", r.what, r.status) }

func (g *Gitea) do(ctx context.Context, method, address, contentType string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth(g.User, g.Password)
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("User-Agent", "lab")
	res, err := g.client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode/100 != 2 {
		return nil, errors.Join(refused{res.StatusCode, method + " " + req.URL.Path}, res.Body.Close())
	}
	return res, nil
}

// api calls Gitea's API: https://docs.gitea.com/api
func (g *Gitea) api(ctx context.Context, method, path string, body, into any) error {
	const limit = time.Minute
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	res, err := g.do(ctx, method, g.URL+"api/v1/repos/"+url.PathEscape(g.Owner)+"/"+url.PathEscape(g.Name)+path, "application/json", text)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if into == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(res.Body, g.MaxAPI)).Decode(into)
}

// Requests implements Reader.
func (g *Gitea) Requests(ctx context.Context) (list []Request, err error) {
	const perPage = 50 // Gitea's most
	for page := 1; page <= 2; page++ {
		var pulls []struct {
			Number     int
			Title      string
			Head, Base struct{ SHA string }
			MergeBase  string `json:"merge_base"`
		}
		if err := g.api(ctx, http.MethodGet, fmt.Sprintf("/pulls?state=open&sort=recentupdate&limit=%d&page=%d", perPage, page), nil, &pulls); err != nil {
			return nil, err
		}
		for _, p := range pulls {
			list = append(list, Request{Number: p.Number, Title: p.Title, Head: p.Head.SHA, Base: p.Base.SHA, MergeBase: p.MergeBase})
		}
		if len(pulls) < perPage {
			break
		}
	}
	return list, nil
}

// File implements Reader.
func (g *Gitea) File(ctx context.Context, commit, name string, most int64) ([]byte, error) {
	var file struct {
		Type, Encoding, Content string
		Size                    int64
	}
	var segments []string
	for s := range strings.SplitSeq(name, "/") {
		segments = append(segments, url.PathEscape(s))
	}
	err := g.api(ctx, http.MethodGet, "/contents/"+strings.Join(segments, "/")+"?ref="+url.QueryEscape(commit), nil, &file)
	switch r := (refused{}); {
	case errors.As(err, &r) && r.status == http.StatusNotFound:
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, err
	case file.Type != "file": // a link is not followed
		return nil, fmt.Errorf("%s is not a file", name)
	case file.Size > most:
		return make([]byte, most+1), nil // too large, as the reader of it says
	}
	var data []byte
	if err := json.Unmarshal([]byte(strconv.Quote(file.Content)), &data); err != nil { // base64
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}

// Pack implements Reader. It is git's protocol: https://git-scm.com/docs/http-protocol, with a depth of 1, so that the answer has no history.
func (g *Gitea) Pack(ctx context.Context, commits ...string) (io.ReadCloser, error) {
	var body bytes.Buffer
	line := func(text string) { fmt.Fprintf(&body, "%04x%s\n", len(text)+5, text) }
	const capabilities = " ofs-delta no-progress agent=lab"
	for i, c := range commits {
		if i == 0 {
			c += capabilities
		}
		line("want " + c)
	}
	line("deepen 1")
	body.WriteString("0000")
	line("done")
	address := g.URL + url.PathEscape(g.Owner) + "/" + url.PathEscape(g.Name) + ".git/git-upload-pack"
	res, err := g.do(ctx, http.MethodPost, address, "application/x-git-upload-pack-request", body.Bytes())
	if err != nil {
		return nil, err
	}
	if err := acknowledged(res.Body); err != nil {
		return nil, errors.Join(err, res.Body.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, g.MaxPack), res.Body}, nil
}

// acknowledged reads what comes before the pack.
func acknowledged(r io.Reader) error {
	for range 100 {
		head := make([]byte, 4)
		if _, err := io.ReadFull(r, head); err != nil {
			return fmt.Errorf("git-upload-pack of the forge: %w", err)
		}
		n, err := strconv.ParseUint(string(head), 16, 16)
		if err != nil {
			return fmt.Errorf("git-upload-pack of the forge: %w", err)
		}
		if n < 4 { // a flush, after the limits of the history
			continue
		}
		text := make([]byte, n-4)
		if _, err := io.ReadFull(r, text); err != nil {
			return fmt.Errorf("git-upload-pack of the forge: %w", err)
		}
		switch said := strings.TrimSpace(string(text)); {
		case said == "NAK":
			return nil
		case strings.HasPrefix(said, "shallow "):
		default:
			return errors.New("git-upload-pack of the forge: " + lab.Clip(plain(said), 200))
		}
	}
	return errors.New("git-upload-pack of the forge: no pack")
}

// SetStatus implements Writer.
func (g *Gitea) SetStatus(ctx context.Context, commit string, s Status) error {
	return g.api(ctx, http.MethodPost, "/statuses/"+url.PathEscape(commit), map[string]string{"context": s.Context, "state": string(s.State), "description": s.Description}, nil)
}

// Comment implements Writer. Anybody can write a marker: only a comment of the same account is updated.
func (g *Gitea) Comment(ctx context.Context, number int, marker, body string) error {
	var comments []struct {
		ID   int64
		Body string
		User struct{ Login string }
	}
	if err := g.api(ctx, http.MethodGet, fmt.Sprintf("/issues/%d/comments", number), nil, &comments); err != nil {
		return err
	}
	text := map[string]string{"body": body}
	for _, c := range comments {
		if c.User.Login == g.User && strings.HasPrefix(c.Body, marker) {
			if strings.TrimSpace(c.Body) == strings.TrimSpace(body) {
				return nil
			}
			return g.api(ctx, http.MethodPatch, fmt.Sprintf("/issues/comments/%d", c.ID), text, nil)
		}
	}
	return g.api(ctx, http.MethodPost, fmt.Sprintf("/issues/%d/comments", number), text, nil)
}
