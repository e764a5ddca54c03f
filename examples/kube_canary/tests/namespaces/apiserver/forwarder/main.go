// What of a kubelet forwards ports, by the kubelet's own code. The API server reaches it as it reaches a kubelet, and it connects to
// ports of its own network namespace, in which the test also runs the pod.
//
//	port-forwarder ADDRESS:PORT
package main

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubelet/pkg/cri/streaming/portforward"
)

type pod struct{}

func (pod) PortForward(_ context.Context, _ string, _ types.UID, port int32, stream io.ReadWriteCloser) error {
	connection, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer connection.Close()
	go func() {
		_, _ = io.Copy(connection, stream)
		_ = connection.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, connection)
	return err
}

func main() {
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		portforward.ServePortForward(writer, request, pod{}, "", "", &portforward.V4Options{},
			time.Minute, time.Minute, []string{portforward.ProtocolV1Name})
	}))
	server.Listener = listener
	// With the certificate that Go has for tests: the API server is not told to verify it.
	server.StartTLS()
	select {}
}
