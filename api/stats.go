package api

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/rib"
)

const (
	// topOrigins is how many origin ASes the overview names.
	topOrigins = 25
	// overviewShare is the part of one processor that overviews of a table that changes all the time
	// may take: one in so many.
	overviewShare = 20
)

// statsAnswer is the answer of GET /api/v1/stats: what one generation of a table looks like.
type statsAnswer struct {
	Table      string       `json:"table"`
	Generation uint64       `json:"generation"`
	Created    time.Time    `json:"created"`
	Source     string       `json:"source"`
	Routes     families     `json:"routes"`
	Lengths    lengths      `json:"prefix_lengths"`
	Origins    families     `json:"origin_count"` // ASes that originate a route of the family
	TopOrigins []originStat `json:"top_origins"`
	Memory     memoryStat   `json:"memory"`
	Engine     string       `json:"engine"`
	GPUs       []GPU        `json:"gpus"`
}

// lengths are numbers of prefixes by their length.
type lengths struct {
	IPv4 [33]int  `json:"ipv4"`
	IPv6 [129]int `json:"ipv6"`
}

// originStat is how many routes an AS originates. Those whose path ends in a set count for all of it.
type originStat struct {
	AS   uint32 `json:"as"`
	IPv4 int    `json:"ipv4"`
	IPv6 int    `json:"ipv6"`
}

// memoryStat is what a table takes in bytes.
type memoryStat struct {
	Total       uint64             `json:"total_bytes"`
	Parts       []memoryPart       `json:"parts"`
	Accelerated *acceleratedMemory `json:"accelerated"` // its form on GPUs, null where there is none
}

type memoryPart struct {
	Name  string `json:"name"` // "ipv4", "ipv6", "exact"
	Bytes uint64 `json:"bytes"`
}

// acceleratedMemory is the table's form for large batches, of which every GPU holds one.
type acceleratedMemory struct {
	Engine string `json:"engine"`
	Bytes  uint64 `json:"bytes_per_gpu"`
}

// overview keeps the newest statsAnswer of a table.
type overview struct {
	mu      sync.Mutex
	of      *statsAnswer
	tag     string
	created time.Time     // of the generation
	ended   time.Time     // when it was made
	took    time.Duration // making it
}

// stats answers GET /api/v1/stats. Making the answer walks all routes, so it is kept: a newer
// generation has it made anew, but not before it has rested for overviewShare times what it took. The
// answer names its generation. One that a request pins is made for it unless it is there.
func (a *API) stats(c *gin.Context) {
	v := a.asked(c)
	if v == nil {
		return
	}
	query := c.Request.URL.RawQuery
	number, err := parseGeneration(query)
	if err == nil {
		err = onlyParameters(query, generationParameter, tableParameter)
	}
	if err != nil {
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return
	}
	g := a.acquireNumber(c, v, number)
	if g == nil {
		return
	}
	defer g.Release()
	pinned := number != 0 || c.Request.Header["If-Match"] != nil
	answer, tag := v.overview.get(g, pinned, time.Now, func() *statsAnswer { return a.makeStats(v, g) })
	v.nameGeneration(c, answer.Generation)
	c.Writer.Header()["Cache-Control"] = []string{"no-cache"} // may be kept, and is to be asked about
	if !unchanged(c, []string{tag}) {
		a.encode(c, v, answer.Generation, answer)
	}
}

// get gives the overview of g, or of a generation shortly before, unless that very one is wanted. Who asks
// while it is made waits.
func (o *overview) get(g *rib.Generation, pinned bool, now func() time.Time, make func() *statsAnswer) (*statsAnswer, string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// By when it was created: numbers may begin anew with another table of the name.
	if o.of != nil && (o.created.Equal(g.Created) || !pinned && now().Sub(o.ended) < overviewShare*o.took) {
		return o.of, o.tag
	}
	if pinned {
		return make(), entityTag(g)
	}
	begun := now()
	o.of, o.tag, o.created = make(), entityTag(g), g.Created
	o.ended = now()
	o.took = o.ended.Sub(begun)
	return o.of, o.tag
}

// makeStats walks the routes of a generation: some 150 ms for a full table.
func (a *API) makeStats(v *view, g *rib.Generation) *statsAnswer {
	s := &statsAnswer{
		Table: v.name, Generation: g.Number, Created: g.Created, Source: g.Source, Routes: families{g.V4, g.V6},
		Engine: a.deps.EngineName, GPUs: append([]GPU{}, a.deps.GPUs...),
	}
	origins := map[uint32]*originStat{}
	// Sets of attributes are looked at once, nearly, and have their origins ready for the routes to count.
	of := func(at *rib.Attrs) []*originStat { return originsIn(origins, at.ASPath) }
	for r, counted := range rib.ByAttrs(g, of) {
		is4 := r.Prefix.Addr().Is4()
		if is4 {
			s.Lengths.IPv4[r.Prefix.Bits()]++
		} else {
			s.Lengths.IPv6[r.Prefix.Bits()]++
		}
		for _, o := range counted {
			if is4 {
				o.IPv4++
			} else {
				o.IPv6++
			}
		}
	}
	s.TopOrigins = make([]originStat, 0, len(origins))
	for _, o := range origins {
		s.TopOrigins = append(s.TopOrigins, *o)
		if o.IPv4 > 0 {
			s.Origins.IPv4++
		}
		if o.IPv6 > 0 {
			s.Origins.IPv6++
		}
	}
	slices.SortFunc(s.TopOrigins, func(a, b originStat) int {
		return cmp.Or(cmp.Compare(b.IPv4+b.IPv6, a.IPv4+a.IPv6), cmp.Compare(a.AS, b.AS))
	})
	s.TopOrigins = slices.Clone(s.TopOrigins[:min(len(s.TopOrigins), topOrigins)]) // not all of them are to be kept
	s.Memory = memoryOf(v, g)
	return s
}

// originsIn gives the counters of a path's origins, each once.
func originsIn(counts map[uint32]*originStat, p rib.ASPath) (all []*originStat) {
	packed := originASNs(p)
	for i := 0; i+4 <= len(packed); i += 4 {
		as := number(string(packed), i)
		o := counts[as]
		if o == nil {
			o = &originStat{AS: as}
			counts[as] = o
		}
		if !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	return all
}

func memoryOf(v *view, g *rib.Generation) memoryStat {
	info := v.info.of(g)
	m := memoryStat{Total: info.Bytes(), Parts: []memoryPart{}}
	for _, f := range info.Families {
		m.Parts = append(m.Parts, memoryPart{f.Family, f.Bytes})
	}
	if info.ExactBytes > 0 {
		m.Parts = append(m.Parts, memoryPart{"exact", info.ExactBytes})
	}
	if info.Accelerator != nil {
		m.Accelerated = &acceleratedMemory{info.Accelerator.Engine, info.Accelerator.Bytes()}
	}
	return m
}

// matchesTag reports whether the value of an If-None-Match header names tag (RFC 9110, 13.1.2).
func matchesTag(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		one = strings.TrimSpace(one)
		if one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}
