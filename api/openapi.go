package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"
)

// openapiJSON describes every endpoint as OpenAPI 3.1. A test compares it with the endpoints and with
// what they answer.
//
//go:embed openapi.json
var openapiJSON []byte

// openapiHTML is the page at /docs: a template of openapiJSON, without scripts.
//
//go:embed openapi.html
var openapiHTML string

// openapiAssets are /openapi.json and /docs.
var openapiAssets = sync.OnceValue(func() (of struct{ document, page *asset }) {
	page, style, err := openapiPage(openapiJSON)
	if err != nil {
		panic(err) // both are part of the program: a test would have seen it
	}
	hash := sha256.Sum256([]byte(style))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	of.document = newAsset(openapiJSON, "application/json", "default-src 'none'")
	of.page = newAsset(page, "text/html; charset=utf-8", policy)
	return of
})

// openapi answers GET /openapi.json.
func (a *API) openapi(c *gin.Context) { openapiAssets().document.serve(c) }

// docs answers GET /docs.
func (a *API) docs(c *gin.Context) { openapiAssets().page.serve(c) }

// apiDocument is what the page shows of the document.
type apiDocument struct {
	OpenAPI string
	Info    struct{ Title, Summary, Description string }
	Tags    []*apiTag
	Paths   map[string]map[string]*apiOperation

	Components struct {
		Schemas    map[string]*apiSchema
		Parameters map[string]*apiParameter
	}
}

type apiTag struct {
	Name, Description string
	Operations        []*apiOperation // filled in by the page
}

type apiOperation struct {
	Method, Path         string // filled in by the page
	Tags                 []string
	Summary, Description string
	OperationID          string
	Parameters           []*apiParameter
	RequestBody          *apiContent
	Responses            map[string]*apiContent
}

type apiParameter struct {
	Ref         string `json:"$ref"`
	Name, In    string
	Description string
	Required    bool
	Schema      *apiSchema
}

type apiContent struct {
	Ref         string `json:"$ref"`
	Description string
	Content     map[string]struct{ Schema *apiSchema }
}

type apiSchema struct {
	Ref         string `json:"$ref"`
	Type        any
	Description string
	Enum        []any
	Const       any
	Items       *apiSchema
	OneOf       []*apiSchema
	Properties  map[string]*apiSchema
	Required    []string
}

// Name is the name of a schema that this one refers to.
func (s *apiSchema) Name() string { return strings.TrimPrefix(s.Ref, "#/components/schemas/") }

// Types gives the types of a schema in words.
func (s *apiSchema) Types() string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []any:
		words := make([]string, len(t))
		for i, w := range t {
			words[i] = fmt.Sprint(w)
		}
		return strings.Join(words, " or ")
	}
	return ""
}

// Values lists what an enum or const allows.
func (s *apiSchema) Values() (texts []string) {
	all := s.Enum
	if s.Const != nil {
		all = append(all, s.Const)
	}
	for _, v := range all {
		text, err := json.Marshal(v)
		if err != nil { // it was JSON
			continue
		}
		texts = append(texts, string(text))
	}
	return texts
}

// Needs reports whether a property is always there.
func (s *apiSchema) Needs(property string) bool { return slices.Contains(s.Required, property) }

// openapiPage makes the page of a document, and gives the style sheet in it.
func openapiPage(document []byte) (page []byte, style string, err error) {
	var doc apiDocument
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, "", fmt.Errorf("openapi.json: %w", err)
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			op := doc.Paths[path][method]
			op.Method, op.Path = strings.ToUpper(method), path
			for i, p := range op.Parameters {
				if p.Ref != "" {
					op.Parameters[i] = doc.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
				}
			}
			for _, t := range doc.Tags {
				if slices.Contains(op.Tags, t.Name) {
					t.Operations = append(t.Operations, op)
				}
			}
		}
	}
	tmpl, err := template.New("docs").Parse(openapiHTML)
	if err != nil {
		return nil, "", err
	}
	var out bytes.Buffer
	if err := tmpl.Execute(&out, &doc); err != nil {
		return nil, "", err
	}
	_, style, _ = strings.Cut(out.String(), "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	return out.Bytes(), style, nil
}
