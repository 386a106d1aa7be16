package supervise

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
)

// HookPath is where the forge calls.
const HookPath = "/hook"

const (
	signature = "X-Gitea-Signature" // https://docs.gitea.com/usage/webhooks: HMAC-SHA256 of the body, in hexadecimal
	maxCall   = 8 << 20
)

// Hook returns what the forge calls, and a channel with a value whenever it did. What it sends is not read but for its signature: the supervisor asks itself what is new.
func Hook(secret string) (http.Handler, <-chan struct{}) {
	wake := make(chan struct{}, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST "+HookPath, func(w http.ResponseWriter, r *http.Request) {
		mac := hmac.New(sha256.New, []byte(secret))
		_, err := io.Copy(mac, http.MaxBytesReader(w, r.Body, maxCall))
		sent, hexErr := hex.DecodeString(r.Header.Get(signature))
		if err != nil || hexErr != nil || secret == "" || !hmac.Equal(sent, mac.Sum(nil)) {
			http.Error(w, "not signed by the lab's Git server", http.StatusUnauthorized)
			return
		}
		select {
		case wake <- struct{}{}:
		default: // it is about to look
		}
	})
	return mux, wake
}
