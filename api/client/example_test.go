package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/api/client"
)

// service is a service with a few routes, in place of one of your own.
func service() *httptest.Server { return newService(new(testing.B), nil) }

func ExampleClient_Lookup() {
	srv := service()
	defer srv.Close()
	c, err := client.New(srv.URL) // "http://127.0.0.1:8080"
	if err != nil {
		log.Fatal(err)
	}
	answer, err := c.Lookup(context.Background(), netip.MustParseAddr("192.0.2.200"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Prefix, answer.NextHop, answer.OriginASNs)
	// Output: 192.0.2.128/25 2001:db8::1 [64510]
}

func ExampleClient_Bulk() {
	srv := service()
	defer srv.Close()
	c, err := client.New(srv.URL)
	if err != nil {
		log.Fatal(err)
	}
	addrs := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::7"), netip.MustParseAddr("9.9.9.9")}
	for answer, err := range c.Bulk(context.Background(), slices.Values(addrs)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(answer.IP, answer.Prefix.IsValid(), answer.Prefix)
	}
	// Output:
	// 192.0.2.1 true 192.0.2.0/24
	// 2001:db8::7 true 2001:db8::/32
	// 9.9.9.9 false invalid Prefix
}

func ExampleClient_Batches4() {
	srv := service()
	defer srv.Close()
	c, err := client.New(srv.URL)
	if err != nil {
		log.Fatal(err)
	}
	addrs := []uint32{0xc0000201, 0xc00002ff, 0x09090909} // 192.0.2.1, 192.0.2.255, 9.9.9.9
	for batch, err := range c.Batches4(context.Background(), slices.Chunk(addrs, 1<<16)) {
		if err != nil {
			log.Fatal(err)
		}
		for row := range batch.Len() {
			fmt.Printf("%q %d %q\n", batch.Prefix(row), batch.Origin(row), batch.NextHop(row))
		}
	}
	// Output:
	// "192.0.2.0/24" 0 "198.51.100.1"
	// "192.0.2.128/25" 64510 "2001:db8::1"
	// "" 0 ""
}

func ExampleClient_Routes() {
	srv := service()
	defer srv.Close()
	c, err := client.New(srv.URL)
	if err != nil {
		log.Fatal(err)
	}
	for route, err := range c.Routes(context.Background(), url.Values{"origin": {"64510"}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(route.Prefix, route.ASPath)
	}
	// Output:
	// 192.0.2.128/25 [[64510]]
	// 2001:db8::/32 [[64510]]
}
