package forge

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Where things lie in Gitea's container: upstream's image and the one built from source agree on the program.
const (
	program  = "/app/gitea/gitea"
	dataDir  = "/data"
	workPath = dataDir + "/gitea"
	appINI   = workPath + "/conf/app.ini"
	account  = "1000" // user and group git in both images
)

// settings is Gitea's app.ini. Everything that a lab of one person has no use for is off, which halves the time to start: no SSH, no LFS, no search index,
// no queue on disk, one language. The keys follow from the password, so that a container made again over the same volume reads what the old one wrote.
func (g *Gitea) settings() string {
	return strings.NewReplacer(
		"{url}", g.URL(), "{host}", g.name, "{port}", httpPort, "{work}", workPath,
		"{secret}", g.key("secret key"), "{internal}", g.key("internal token"), "{jwt}", g.jwtKey(),
	).Replace(`APP_NAME = lab
RUN_USER = git
RUN_MODE = prod
WORK_PATH = {work}

[server]
PROTOCOL = http
DOMAIN = {host}
ROOT_URL = {url}
HTTP_ADDR = 0.0.0.0
HTTP_PORT = {port}
APP_DATA_PATH = {work}/data
DISABLE_SSH = true
LFS_START_SERVER = false
OFFLINE_MODE = true
; links follow the address that was asked, so that a clone through 127.0.0.1 works too
PUBLIC_URL_DETECTION = auto

[database]
DB_TYPE = sqlite3
PATH = {work}/data/gitea.db
SQLITE_JOURNAL_MODE = WAL
LOG_SQL = false

[repository]
ROOT = {work}/repositories
DEFAULT_BRANCH = main
DEFAULT_PRIVATE = public
DISABLE_STARS = true

[security]
INSTALL_LOCK = true
SECRET_KEY = {secret}
INTERNAL_TOKEN = {internal}
PASSWORD_COMPLEXITY = off
; the password is random and long: stretching it would only cost 100 ms with every request
PASSWORD_HASH_ALGO = pbkdf2$1000$50

[service]
DISABLE_REGISTRATION = true
REGISTER_EMAIL_CONFIRM = false
DEFAULT_ALLOW_CREATE_ORGANIZATION = true
ENABLE_CAPTCHA = false

[oauth2]
ENABLED = false
JWT_SECRET = {jwt}

[openid]
ENABLE_OPENID_SIGNIN = false
ENABLE_OPENID_SIGNUP = false

[session]
PROVIDER = memory

[cache]
ADAPTER = memory

[queue]
TYPE = channel

[indexer]
ISSUE_INDEXER_TYPE = db
REPO_INDEXER_ENABLED = false

[webhook]
; the engine's address is a private one
ALLOWED_HOST_LIST = private,loopback
DELIVER_TIMEOUT = 5

[packages]
ENABLED = true

[actions]
ENABLED = false

[mailer]
ENABLED = false

[picture]
DISABLE_GRAVATAR = true
ENABLE_FEDERATED_AVATAR = false

[i18n]
LANGS = en-US
NAMES = English

[cron]
ENABLED = false

[cron.update_checker]
ENABLED = false

[log]
MODE = console
LEVEL = Warn
`)
}

// key derives one of Gitea's own secrets from the admin's password.
func (g *Gitea) key(purpose string) string { return hex.EncodeToString(g.derive(purpose)) }

// jwtKey is 32 bytes in the form that Gitea wants for a signing key.
func (g *Gitea) jwtKey() string { return base64.RawURLEncoding.EncodeToString(g.derive("jwt secret")) }

func (g *Gitea) derive(purpose string) []byte {
	mac := hmac.New(sha256.New, []byte(g.creds.Password))
	mac.Write([]byte("lab forge " + purpose))
	return mac.Sum(nil)
}
