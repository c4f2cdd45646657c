# `mqstore serve` for the clients of this host: docs/serve.md.
FROM python:3.13-slim
COPY dist/mqstore-*.whl /tmp/
RUN pip install --no-cache-dir /tmp/mqstore-*.whl && useradd --system --home-dir /data mqstore && install -d -o mqstore /data
USER mqstore
VOLUME /data
EXPOSE 9876
STOPSIGNAL SIGTERM
ENTRYPOINT ["mqstore", "serve", "/data", "--listen", "0.0.0.0", "--insecure", "--advertise", "127.0.0.1:9876"]
