//! Hash functions, and later the cluster map and routing: shared by client and server.
