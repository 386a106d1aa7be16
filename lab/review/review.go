package review

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// forge is where comments are.
type forge struct {
	list, one     string // addresses of all comments and, with the number of one after it, of one
	head, token   string // header with the token
	create, patch string // methods
	author        func(comment) bool
	summary       string // file for what cannot be written there
}

// comment is one on GitHub, or a note on GitLab.
type comment struct {
	ID   int64
	Body string
	User struct{ Login string } // GitHub's
	By   struct{ ID int64 }     `json:"author"` // GitLab's
}

const (
	pages = 30
	limit = 30 * time.Second
)

// refused is the status of a forge that does not let the token write.
type refused int

func (r refused) Error() string { return fmt.Sprintf("the API answers %d", int(r)) }

// number matches what may stand in an address of the API.
var number = regexp.MustCompile(`^[0-9]+$`)

// Post writes the review of the files in a folder to the pull or merge request that the environment names, and returns what it did. Nothing that it returns comes from the
// repository or the forge: runners take lines of a log as commands.
func Post(ctx context.Context, folder string, getenv func(string) string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*limit)
	defer cancel()
	marker := fmt.Sprintf("<!-- lab review of %x -->", filepath.Clean(cmp.Or(getenv("LAB_REVIEW_ESTATE"), ".")))
	body := text(folder, marker)
	if err := os.WriteFile(filepath.Join(folder, "review.md"), []byte(body), 0o600); err != nil {
		return "", err
	}
	f, err := forgeOf(ctx, getenv)
	if err == nil {
		var done string
		if done, err = f.put(ctx, marker, body); err == nil {
			return done, nil
		}
	}
	why := "the API cannot be reached"
	if status := refused(0); errors.As(err, &status) {
		why = status.Error()
	} else if errors.Is(err, errNowhere) {
		why = err.Error()
	}
	if f.summary == "" {
		return "no comment: " + why + "; the review is in review.md", nil
	}
	file, err := os.OpenFile(f.summary, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(body + "\n")
	return "no comment: " + why + "; the review is in the job's summary", errors.Join(err, file.Close())
}

var errNowhere = errors.New("no token or no pull request")

// forgeOf returns the forge of a job's environment.
func forgeOf(ctx context.Context, getenv func(string) string) (forge, error) {
	token, request := getenv("LAB_REVIEW_TOKEN"), getenv("LAB_REVIEW_REQUEST")
	f := forge{token: token, summary: getenv("GITHUB_STEP_SUMMARY")}
	if api := getenv("CI_API_V4_URL"); api != "" && getenv("GITHUB_ACTIONS") == "" {
		project := getenv("CI_MERGE_REQUEST_PROJECT_ID")
		if token == "" || !number.MatchString(request) || !number.MatchString(project) {
			return f, errNowhere
		}
		f.list = api + "/projects/" + project + "/merge_requests/" + request + "/notes"
		f.one, f.head, f.create, f.patch = f.list+"/", "PRIVATE-TOKEN", http.MethodPost, http.MethodPut
		var me struct{ ID int64 }
		err := f.call(ctx, http.MethodGet, api+"/user", "", &me)
		f.author = func(c comment) bool { return c.By.ID == me.ID }
		return f, err
	}
	owner, name, ok := strings.Cut(getenv("GITHUB_REPOSITORY"), "/")
	if token == "" || !number.MatchString(request) || !ok {
		return f, errNowhere
	}
	repository := getenv("GITHUB_API_URL") + "/repos/" + url.PathEscape(owner) + "/" + url.PathEscape(name) + "/issues/"
	f.list, f.one = repository+request+"/comments", repository+"comments/"
	f.head, f.token, f.create, f.patch = "Authorization", "Bearer "+token, http.MethodPost, http.MethodPatch
	login := cmp.Or(getenv("LAB_REVIEW_AUTHOR"), "github-actions[bot]")
	f.author = func(c comment) bool { return c.User.Login == login }
	return f, nil
}

// put creates the comment, or updates the one with the marker that the same author has written: anybody can write a marker.
func (f forge) put(ctx context.Context, marker, body string) (string, error) {
	const perPage = 100
	for page := 1; page <= pages; page++ {
		var list []comment
		if err := f.call(ctx, http.MethodGet, fmt.Sprintf("%s?per_page=%d&page=%d", f.list, perPage, page), "", &list); err != nil {
			return "", err
		}
		for _, c := range list {
			if strings.HasPrefix(c.Body, marker) && f.author(c) {
				if c.Body == strings.TrimSpace(body) || c.Body == body {
					return "the comment is up to date", nil
				}
				return "updated the comment", f.call(ctx, f.patch, fmt.Sprint(f.one, c.ID), body, nil)
			}
		}
		if len(list) < perPage {
			break
		}
	}
	return "commented", f.call(ctx, f.create, f.list, body, nil)
}

// call makes a request. Redirects are not followed: they would get the token.
func (f forge) call(ctx context.Context, method, address, body string, into any) error {
	var data io.Reader
	if body != "" {
		text, err := json.Marshal(map[string]string{"body": body})
		if err != nil {
			return err
		}
		data = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, data)
	if err != nil {
		return err
	}
	req.Header.Set(f.head, f.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "lab")
	client := http.Client{Timeout: limit, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusMultipleChoices {
		return refused(res.StatusCode)
	}
	if into == nil {
		return nil
	}
	const longest = 32 << 20
	return json.NewDecoder(io.LimitReader(res.Body, longest)).Decode(into)
}
