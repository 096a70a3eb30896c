//! AAEP over every transport: HTTP with SSE and WebSocket, sockets, gRPC, stdio.
