package api

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"strconv"
	"sync"

	"github.com/gin-gonic/gin"
)

// webPath is where the files of the page are; the page itself is at /.
const webPath = "/web/"

// webFiles is the page: HTML, CSS and ES modules as browsers take them.
//
//go:embed web
var webFiles embed.FS

// webTypes are all types that files of the page have.
var webTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// webPolicy has a browser load nothing but the page's own files, ask nobody but the service, run no
// script from the text of a page, and refuse text as HTML: names of peers and texts of problems may
// be anybody's.
const webPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// An asset is a file that is part of the program, as it is answered. Values are shared by all answers.
type asset struct {
	body   []byte
	header map[string][]string
	tag    []string
}

// newAsset makes one of a type, with a content security policy.
func newAsset(body []byte, kind, policy string) *asset {
	hash := sha256.Sum256(body)
	return &asset{body: body, tag: []string{fmt.Sprintf(`"%x"`, hash[:8])}, header: map[string][]string{
		"Content-Type":               {kind},
		"Cache-Control":              {"no-cache"}, // kept, and asked about: a new version shows at once
		"Content-Security-Policy":    {policy},
		"X-Content-Type-Options":     {"nosniff"},
		"Referrer-Policy":            {"no-referrer"},
		"Cross-Origin-Opener-Policy": {"same-origin"},
	}}
}

// serve answers with the file, or that the client has it.
func (file *asset) serve(c *gin.Context) {
	h := c.Writer.Header()
	maps.Copy(h, file.header)
	if unchanged(c, file.tag) {
		return
	}
	h["Content-Length"] = []string{strconv.Itoa(len(file.body))}
	c.Writer.WriteHeader(http.StatusOK)
	_, _ = c.Writer.Write(file.body) // the client may be gone: nobody is left to tell
}

// assets are the files of the page by name. What is asked for is looked up here and nowhere else, so
// that no name reaches a file system.
var assets = sync.OnceValue(func() map[string]*asset {
	all := map[string]*asset{}
	err := fs.WalkDir(webFiles, "web", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := webFiles.ReadFile(name)
		if err != nil {
			return err
		}
		kind, ok := webTypes[path.Ext(name)]
		if !ok {
			return fmt.Errorf("%s: its type is not in webTypes", name)
		}
		all[name[len("web/"):]] = newAsset(body, kind, webPolicy)
		return nil
	})
	if err != nil {
		panic(err) // the files are part of the program: a test would have seen it
	}
	return all
})

// page answers GET / and the files that the page consists of.
func (a *API) page(c *gin.Context) {
	name := c.Param("file") // begins with a slash; empty at /
	if name == "" {
		name = "/index.html"
	}
	file, ok := assets()[name[1:]]
	if !ok {
		a.refuse(c, http.StatusNotFound, "the page has no such file; it begins at /")
		return
	}
	file.serve(c)
}
