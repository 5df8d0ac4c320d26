# archqa in a container: docker build -t archqa . (docs/how-to/install.md says how to run it)

FROM python:3.12-slim AS wheel
WORKDIR /source
RUN python -m venv /build && /build/bin/pip install --no-cache-dir "hatchling==1.33.0"
COPY . .
RUN /build/bin/hatchling build -t wheel -d /wheel

FROM python:3.12-slim AS install
# `web` serves pages, `pdf` reads notes; --build-arg EXTRAS=web,pdf,smart for others.
ARG EXTRAS=web,pdf
COPY --from=wheel /wheel /wheel
RUN python -m venv /opt/archqa \
    && wheel="$(echo /wheel/archqa-*.whl)" \
    && /opt/archqa/bin/pip install --no-cache-dir "${wheel}[${EXTRAS}]" \
    && /opt/archqa/bin/pip uninstall --yes pip

FROM python:3.12-slim
ENV PATH=/opt/archqa/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
RUN useradd --uid 10001 --create-home archqa \
    && install -d -o archqa -g archqa -m 0700 /work /work/runs
COPY --from=install /opt/archqa /opt/archqa
USER 10001
WORKDIR /work
# Run folders hold record text; without a volume they end with the container.
VOLUME /work/runs
ENTRYPOINT ["archqa"]
CMD ["--help"]
