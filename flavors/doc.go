// Package flavors is a radix tree with configurable strides: the Flavors method of A. Wolant and
// K. Kaczmarski (GTC Europe 2017), built and searched here on the CPU.
//
// A tree is described by its strides, the number of key bits that each level consumes. For
// 6-bit keys and strides 3, 2, 1:
//
//	key bits   0 1 2 | 3 4 | 5
//	level        0      1    2
//	cells a node 8      4    2
//
// A node of level l is an array of 2^stride(l) cells. A cell holds the number of a node on the
// next level, or nothing, or, depending on the tree, what the search is for:
//
//   - KeyTree: all values have the tree's full length. The cells of the last level hold the
//     position that the key had in the input.
//   - Tree: values are masks (prefixes) of any length. A mask belongs to the one node whose level
//     holds its last bit, so 010-0X-X and 010-00-X share a node; each node has a container that
//     lists its masks, longest first. In the flavor List a search reads the containers of the
//     nodes on its way. In the flavor Pushed every cell without a child also holds the best mask
//     that covers it, inherited from the levels above where its own node has none, so a search
//     reads one cell a level and no list.
//
// # Build
//
// A build is a sequence of steps over flat arrays. Each is a function of its own, so that it can
// be tested alone and get a counterpart on a GPU: SortMasks and SortKeys, Split,
// Borders, Indexes, Trim, LinkCells, FillContainers, Push. The result is an Image, whose bytes
// depend only on the values and the strides, not on the order of the input.
//
// # Change
//
// A Tree holds the image's cells in pages. An Edit copies the pages that a change touches and
// shares the others, so tables before and after a change are both intact (see Edit).
package flavors
